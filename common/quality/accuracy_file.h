// accuracy.json, which a job writes beside the answer-quality files in quality/<stack> of its results: whom
// it compared, and where the prompt tokens of the counted pass came from. Pure, thread-safe.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace poolmark::quality {

// Tokens, by the engines' own counters.
struct PromptSources {
  double prompt = 0;
  double gpu = 0, host = 0, storage = 0, remote = 0, computed = 0;
  double not_attributed = 0;
  double below_gpu() const { return host + storage + remote; }
  double reused() const { return gpu + below_gpu(); }
};
// The fields in file order.
inline constexpr std::array<std::pair<const char*, double PromptSources::*>, 7> kPromptSourceFields{{
    {"prompt", &PromptSources::prompt},
    {"gpu", &PromptSources::gpu},
    {"host", &PromptSources::host},
    {"storage", &PromptSources::storage},
    {"remote", &PromptSources::remote},
    {"computed", &PromptSources::computed},
    {"not_attributed", &PromptSources::not_attributed},
}};

struct AccuracyFile {
  std::string stack;
  std::string reference;
  std::optional<PromptSources> sources;
  std::string not_measured;  // why there are no sources
  std::vector<std::string> notes;
};

Result<std::string> EncodeAccuracyFile(const AccuracyFile& file);
// Refuses another schema_version and what no pass can have counted (negative, or beyond 10^15 tokens).
Result<AccuracyFile> DecodeAccuracyFile(std::string_view text, const std::string& where);

// "of 12345 prompt tokens 80 % came from caches (gpu 10 %, remote 70 %)", or why that is not known; then the
// notes, joined by "; ".
std::string DescribeSources(const AccuracyFile& file);

}  // namespace poolmark::quality
