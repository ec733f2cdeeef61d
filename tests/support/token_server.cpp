#include "tests/support/token_server.h"

#include <thread>

#include "common/base/clock.h"

namespace poolmark::test {

std::string OneToken() {
  return ChunkedHead() + Chunk("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n") +
         std::string(kLastChunk);
}

bool Silence(RawConnection& connection, const std::string&, int) {
  connection.PeerCloses();
  return false;
}

std::string StreamOf(int tokens) {
  std::string out = ChunkedHead();
  for (int i = 0; i < tokens; ++i)
    out += Chunk("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" x\"}}]}\n\n");
  return out +
         Chunk("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":" +
               std::to_string(tokens) + "}}\n\n") +
         Chunk("data: [DONE]\n\n") + std::string(kLastChunk);
}

TokenServer::TokenServer(TokenServerOptions options) : options_(std::move(options)) {
  server_ = std::make_unique<RawServer>([this](RawConnection& connection) { Serve(connection); },
                                        options_.unix_path, options_.ipv6);
}

std::map<std::string, int> TokenServer::ids() const {
  const std::lock_guard lock(mutex_);
  return ids_;
}
std::vector<int64_t> TokenServer::arrivals() const {
  const std::lock_guard lock(mutex_);
  return arrivals_;
}
std::vector<std::string> TokenServer::bodies() const {
  const std::lock_guard lock(mutex_);
  return bodies_;
}

void TokenServer::Serve(RawConnection& connection) {
  for (;;) {
    const std::string request = connection.ReadRequest();
    if (request.empty()) return;
    const int64_t now = RealClock().Steady().count();
    const int number = requests_.fetch_add(1);
    const int in_flight = in_flight_.fetch_add(1) + 1;
    int most = max_in_flight_;
    while (most < in_flight && !max_in_flight_.compare_exchange_weak(most, in_flight)) {
    }
    {
      const size_t at = request.find("X-Request-ID: ");
      const std::string id =
          at == std::string::npos ? "" : request.substr(at + 14, request.find("\r\n", at) - at - 14);
      const std::lock_guard lock(mutex_);
      ++ids_[id];
      arrivals_.push_back(now);
      bodies_.push_back(request.substr(request.find("\r\n\r\n") + 4));
    }
    const bool go_on = options_.answer ? options_.answer(connection, request, number) : Stream(connection);
    if (options_.answer) in_flight_.fetch_sub(1);
    if (!go_on || options_.close_each) return;
  }
}

bool TokenServer::Stream(RawConnection& connection) const {
  auto& in_flight = const_cast<std::atomic<int>&>(in_flight_);
  bool good = connection.Write(ChunkedHead(options_.close_each ? "Connection: close\r\n" : ""));
  auto due = std::chrono::steady_clock::now() + options_.first;
  const auto event = [](const std::string& data) { return Chunk("data: " + data + "\n\n"); };
  for (int i = 0; good && i < options_.tokens; ++i) {
    std::this_thread::sleep_until(due);
    due += options_.between;
    const bool last = i + 1 == options_.tokens;
    std::string out = event(R"({"choices":[{"index":0,"delta":{"content":" t)" + std::to_string(i) +
                            R"("},"finish_reason":)" + (last ? "\"length\"" : "null") + "}]}");
    if (last) {
      out += event(R"({"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":)" +
                   std::to_string(options_.tokens) + "}}");
      out += event("[DONE]") + std::string(kLastChunk);
      in_flight.fetch_sub(1);  // before the peer can know the end
    }
    good = connection.Write(out);
  }
  return good;
}

}  // namespace poolmark::test
