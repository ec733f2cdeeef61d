// A small HTTP/1.1 server: the simulated engine's API, the controller's status pages, test servers.
// Handlers run on the server's threads; responses may be streamed and may be abandoned half way.
// Thread-safe where said. Behind it: Boost.Asio.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/http/client.h"

namespace poolmark::http {

struct ServerRequest {
  std::string method;
  std::string target;  // path and query as sent
  std::string path;    // percent-decoded path
  std::string query;
  Headers headers;
  std::string body;
  std::string peer;  // "127.0.0.1:4711"
  std::optional<std::string> header(std::string_view name) const;
};

// The answer to one request. Thread-safe: may be kept (shared_ptr) and written from any thread later,
// which is how streams work without a thread each.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;
  // A whole answer with Content-Length.
  virtual void Send(int status, std::string_view content_type, std::string body,
                    const Headers& extra = {}) = 0;
  // A chunked answer: head, any number of pieces, end. Pieces are queued, never block; false once the
  // peer is gone.
  virtual bool StartStream(int status, std::string_view content_type, const Headers& extra = {}) = 0;
  virtual bool Write(std::string_view piece) = 0;
  virtual void End() = 0;
  // Closes the connection at once (RST), as a crash would.
  virtual void Abort() = 0;
  virtual bool peer_gone() const = 0;
};

using Handler = std::function<void(const ServerRequest&, std::shared_ptr<ResponseWriter>)>;

struct ServerOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 0;  // 0: chosen by the system
  int threads = 1;
  size_t max_body_bytes = 64u << 20;
  size_t max_connections = 4096;
};

class Server {
 public:
  virtual ~Server() = default;  // stops
  // The port that is bound.
  virtual uint16_t port() const = 0;
  // No new connection, open streams are closed, threads joined. Idempotent.
  virtual void Stop() = 0;
  // Listens and serves; an error names address and port.
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options, Handler handler);
};

}  // namespace poolmark::http
