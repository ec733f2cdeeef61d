#include "common/quality/judge_cache.h"

#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/json_text.h"
#include "common/quality/codec_parts.h"

namespace poolmark::quality {
namespace {

bool IsRating(const Json& value) {
  return value.is_null() || (value.is_number() && value.get<double>() >= 0 && value.get<double>() <= 1);
}

std::optional<double> Rating(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

// False for a line that is no cache entry.
bool ReadLine(std::string_view line, std::string* key, JudgeRating* rating) {
  Result<Json> parsed = ParseJson(line, "");
  if (!parsed.ok() || !parsed->is_object()) return false;
  const Json& object = *parsed;
  if (!object.contains("key") || !object.contains("score") || !object.contains("ratings")) return false;
  const Json& ratings = object["ratings"];
  if (!object["key"].is_string() || !ratings.is_array() || ratings.size() != 2) return false;
  if (object["score"].is_null() || !IsRating(object["score"]) || !IsRating(ratings[0]) ||
      !IsRating(ratings[1]))
    return false;
  *key = object["key"].get<std::string>();
  *rating = {Rating(ratings[0]), Rating(ratings[1]), object["score"].get<double>()};
  return true;
}

}  // namespace

Result<std::string> EncodeCacheLine(const std::string& key, const JudgeRating& rating) {
  Json out = {{"key", key}, {"score", OrNull(rating.score())}};
  out["ratings"] = Json::array();
  out["ratings"].push_back(OrNull(rating.answer_first));
  out["ratings"].push_back(OrNull(rating.reference_first));
  POOLMARK_ASSIGN_OR_RETURN(std::string line, WriteJson(out));
  return line + "\n";
}

std::map<std::string, JudgeRating> DecodeCache(std::string_view text) {
  std::map<std::string, JudgeRating> out;
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    std::string key;
    JudgeRating rating;
    if (ReadLine(line, &key, &rating)) out[key] = rating;
  }
  return out;
}

Result<std::unique_ptr<JudgeCache>> JudgeCache::Open(const std::string& path) {
  std::unique_ptr<JudgeCache> cache(new JudgeCache(path));
  if (!FileExists(path)) return cache;
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  cache->loaded_ = DecodeCache(text);
  cache->ends_mid_line_ = !text.empty() && text.back() != '\n';
  return cache;
}

const JudgeRating* JudgeCache::Find(const std::string& key) const {
  auto found = loaded_.find(key);
  return found == loaded_.end() ? nullptr : &found->second;
}

Status JudgeCache::Add(const std::string& key, const JudgeRating& rating) {
  POOLMARK_ASSIGN_OR_RETURN(std::string line, EncodeCacheLine(key, rating));
  std::lock_guard lock(mutex_);
  // A killed run may have left half a line: ours must not continue it.
  POOLMARK_RETURN_IF_ERROR(AppendFile(path_, ends_mid_line_ ? "\n" + line : line, true));
  ends_mid_line_ = false;
  return absl::OkStatus();
}

}  // namespace poolmark::quality
