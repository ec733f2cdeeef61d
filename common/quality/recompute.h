// The comparison made again from a directory's files and the ratings in its judge cache, with the settings
// that summary.json records, and what of summary.json and rows.jsonl it does not give. For `verify` and
// `report`, which may not tell something else than the stored verdict. Reads files, writes none; thread-safe.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/quality/analyze.h"
#include "common/quality/directory.h"

namespace poolmark::quality {

struct Recomputed {
  Analysis analysis;  // with the stored reasons for INVALID, which may be another program's
  Verdict stored_verdict = Verdict::kInvalid;
  std::vector<std::string> stored_reasons;  // for INVALID
  std::vector<std::string> reasons;         // what the files give, in this version's words
  std::vector<std::string> problems;        // file and field that differ; empty: the stored files hold
};

// Errors: a summary.json or rows.jsonl that is missing or malformed, and what Analyze refuses.
Result<Recomputed> Recompute(const LoadedDirectory& loaded, const std::string& path);

// Where `have`, a file's own JSON, differs from `want`: "engagement.gate", "" for all of it; nothing when it
// holds. Numbers may be rounded to four places; keys that are not in `want` are ignored, and those that older
// programs do not write may be absent where there is nothing to say. Both are texts of one JSON value.
std::optional<std::string> JsonDifference(const std::string& want, std::string_view have,
                                          const std::string& where);
// The same for JSON Lines; the path begins with the line ("line 3 'loss_tag'").
std::optional<std::string> JsonLinesDifference(const std::string& want, std::string_view have,
                                               const std::string& where);

}  // namespace poolmark::quality
