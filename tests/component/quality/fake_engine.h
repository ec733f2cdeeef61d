// An OpenAI-compatible engine for the tests of the answer-quality benchmark: looks the question up in a
// table, counts tokens by a simple rule of its own, and shows the blend server's counters as a cache that
// reuses whole chunks would. Behaviour is set before the run; counts may be read at any time. Thread-safe.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/http/server.h"
#include "common/quality/reuse.h"
#include "common/quality/types.h"

namespace poolmark::test {

// Token ids of a text: a word or a mark, each with the space before it, is one token; so is a line end. Texts
// in
// <|...|> are one token.
// With `merging`, a run of marks takes the line ends behind it and line ends are one token, as in Qwen's
// pattern (` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+`).
std::vector<uint32_t> FakeTokens(std::string_view text, bool merging = false);
// The template: "<|user|>\n" content "<|end|>\n<|assistant|>\n".
std::string FakeRender(const std::string& content, const std::string& behind = "<|end|>\n<|assistant|>\n");

struct FakeEngineOptions {
  // The whole response to a question, given its number among the measured ones (0-based).
  std::function<std::string(const std::string& question, int number)> answer;
  // The HTTP status of a request; 0 sends the answer. `store` is true for max_tokens 1.
  std::function<int(bool store, int number)> status;
  int64_t chunk_size = 16;
  // What the counters say about a measured request: from its looked-up (whole chunk) and really reused
  // tokens.
  enum class Reuse { kBlend, kPrefix, kNone, kStale } reuse = Reuse::kBlend;
  double reuse_share = 1.0;    // of what could be reused
  int reset_counters_at = -1;  // measured request before which the counters start again from zero
  bool metrics = true;         // false: /metrics answers 404
  // The metrics page after so many measured requests; "" sends the true one, "500" that status.
  std::function<std::string(int measured)> page;
  // A text tokenized alone gets one more token in front, as with SentencePiece's mark for the first space.
  bool leading_token = false;
  bool merging = false;                                  // see FakeTokens
  std::string behind_user = "<|end|>\n<|assistant|>\n";  // what the chat template writes behind a message
  std::string version = "9.9.9";                         // "" for none
  // The status of the tokenize endpoint's so manieth answer, from 0; 0 sends the ids.
  std::function<int(int number)> tokenize_status;
  // What the tokenize endpoint says of the longest prompt and answer together, as JSON; and the models' list.
  std::string max_model_len = "99999";
  int64_t models_max_model_len = 0;  // 0: the list does not tell
  int models_status = 0;             // of /v1/models; 0: as `models` says
  std::vector<std::string> models;   // what /v1/models lists; empty: no such path
};

class FakeEngine {
 public:
  explicit FakeEngine(FakeEngineOptions options);
  ~FakeEngine();
  std::string url() const;
  std::string metrics_url() const { return url() + "/metrics"; }
  int stores() const;
  int measured() const;
  int tokenized() const;
  std::vector<std::string> bodies() const;
  // Before each chat request is answered (on a server thread).
  void OnChat(std::function<void(int number)> hook);

 private:
  void Serve(const http::ServerRequest& request, http::ResponseWriter& writer);
  void Chat(const http::ServerRequest& request, http::ResponseWriter& writer);
  void CountReuse(const std::string& content, bool store);
  std::string MetricsPage();

  FakeEngineOptions options_;
  mutable std::mutex mutex_;  // guards all below
  quality::Counters counters_;
  quality::ReuseIndex index_;
  int stores_ = 0;
  int measured_ = 0;
  int tokenized_ = 0;
  std::vector<std::string> bodies_;
  std::function<void(int)> on_chat_;
  std::unique_ptr<http::Server> server_;
};

}  // namespace poolmark::test
