// judge_cache.jsonl: ratings that later analyzes reuse. Append-only; an unreadable line (a killed run's last
// one) is skipped; the last line of a key wins. Thread-safe.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/quality/analyze.h"

namespace poolmark::quality {

// One line with its line end. Precondition: at least one rating.
Result<std::string> EncodeCacheLine(const std::string& key, const JudgeRating& rating);
std::map<std::string, JudgeRating> DecodeCache(std::string_view text);

class JudgeCache {
 public:
  // A file that is not there is an empty cache.
  static Result<std::unique_ptr<JudgeCache>> Open(const std::string& path);
  const JudgeRating* Find(const std::string& key) const;
  // On disk when it returns.
  Status Add(const std::string& key, const JudgeRating& rating);

 private:
  explicit JudgeCache(std::string path) : path_(std::move(path)) {}
  std::string path_;
  std::map<std::string, JudgeRating> loaded_;  // what the file held when it was opened
  std::mutex mutex_;                           // guards the file's end
  bool ends_mid_line_ = false;
};

}  // namespace poolmark::quality
