// A workload with live answers as it was sent: each answer as long as the engine wrote it and as the next
// prompt held it, by the engine's own counts. Without live answers a workload is sent as planned and needs
// none of this. Thread-safe once made.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/workload/script.h"

namespace poolmark::workload {

// One request as the file of records has it.
struct SentRequest {
  uint64_t session = 0;
  uint32_t turn = 0;
  double sent = 0, end = 0;  // seconds
  bool primer = false;
  int64_t planned_input_tokens = 0;  // with what the engine puts around the words
  // What live answers need.
  bool reasoned = false;  // reasoning came before the answer, which the next prompt leaves out
  bool stopped = false;   // by itself: the last token may be one that ends a text, which is in no prompt
  std::optional<int64_t> planned_over_counted =
      std::nullopt;  // prompt tokens; nothing: the engine did not count them
  std::optional<int64_t> output_tokens = std::nullopt;  // by the engine's count
};

// Of the answers that a later request of their session was sent with.
struct AnswerCounts {
  uint64_t answers = 0;
  uint64_t counted = 0;            // their length in the next prompt is known
  uint64_t without_reasoning = 0;  // others than the engine wrote: new to every cache
  // Not known to be the tokens that the engine wrote: of another length (their text was tokenized anew), or
  // of none that is known.
  uint64_t doubtful = 0;
  int64_t planned_over_counted = 0;  // prompt tokens, of all requests, for their answers' sake
};

// How far a prompt with a doubtful answer equals what the cache holds.
enum class Doubtful { kReusable, kNew };

class SentWorkload : public Workload {
 public:
  virtual const AnswerCounts& counts() const = 0;
};

// `planned` must outlive what is returned. The requests of a session are answered one after the other.
std::unique_ptr<SentWorkload> WithSentAnswers(const Workload& planned,
                                              const std::vector<SentRequest>& requests, Doubtful doubtful);

}  // namespace poolmark::workload
