// One answer on its way to the client: events in the right order and shape, whole replies for requests that
// do not stream, and the faults that spoil them. Used by the engine's thread only; the delayed writes of
// drip and stall run on a thread of their own.
#pragma once
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agent/sim/api.h"
#include "agent/sim/faults.h"
#include "common/http/server.h"

namespace poolmark::sim {

// Writes pieces at set times, in the order of their times. Thread-safe.
class DelayedWriter {
 public:
  using Writer = std::shared_ptr<http::ResponseWriter>;
  enum class Then { kNothing, kEnd, kAbort };
  ~DelayedWriter();
  void At(Nanoseconds steady, Writer writer, std::string bytes, Then then);
  // Keeps the connection open without a word until the program ends.
  void HoldForEver(Writer writer);

 private:
  struct Piece {
    Writer writer;
    std::string bytes;
    Then then;
  };
  void Run();
  std::mutex mutex_;  // guards the rest
  std::condition_variable wake_;
  std::multimap<Nanoseconds, Piece> pieces_;
  std::vector<Writer> held_;
  bool stopping_ = false;
  std::thread thread_;  // started with the first piece
};

class ReplyStream {
 public:
  using Writer = std::shared_ptr<http::ResponseWriter>;
  ReplyStream(Writer writer, ReplyHead head, const GenerateRequest& request, std::vector<Fault> faults,
              DelayedWriter* delayed);

  // An answer that cannot begin. Only before the first Text().
  void Refuse(const ApiError& error);
  // Right after arrival: faults that do not wait for a token. False: the request is done with.
  bool Arrived();
  // Text of `tokens` tokens. `field`: content, or reasoning's name. False: the stream is broken (by a fault
  // or the client), no more is wanted.
  bool Text(std::string_view field, std::string_view text, int64_t tokens, const Usage& usage);
  void Finish(std::string_view reason, const Usage& usage, const TransferParams* transfer,
              size_t transfer_blocks);
  bool gone() const { return broken_ || writer_->peer_gone(); }
  // A fault ended it, not the client.
  bool broken() const { return broken_; }

 private:
  const Fault* Has(std::string_view kind) const;
  bool Due(std::string_view kind) const;
  void Open();
  void Out(std::string_view bytes, DelayedWriter::Then then = DelayedWriter::Then::kNothing);
  bool SpoilAfterTokens();
  void SendGarbage(const std::string& what);

  Writer writer_;
  const ReplyHead head_;
  const bool stream_;
  const bool include_usage_;
  const bool continuous_usage_;
  const std::vector<Fault> faults_;
  DelayedWriter* delayed_;
  Nanoseconds not_before_{0};  // of the next delayed piece
  bool open_ = false;
  bool role_sent_ = false;
  bool broken_ = false;
  int64_t tokens_ = 0;
  std::string content_;  // of replies that do not stream
  std::string reasoning_;
};

}  // namespace poolmark::sim
