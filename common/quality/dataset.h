// Question-answering data sets: the record shapes of HotpotQA, MuSiQue and the common RAG files, read as
// LMCache's released loader reads them. JSON and JSON Lines; Parquet is converted first
// (deploy/quality/parquet-to-jsonl). Pure but for reading files; thread-safe.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace poolmark::quality {

struct Question {
  std::string qid;
  std::string question;
  std::vector<std::string> answers;    // the first is the one a judge sees
  std::vector<std::string> documents;  // passages, in data set order
  std::vector<int64_t> evidence;       // indices that the data set marks
};

// The file behind --dataset: a known name (hotpotqa, musique) from the local Hugging Face cache, which wins
// over a file of that name, or the path itself. Nothing is downloaded; the error gives the command that does.
Result<std::string> ResolveDataset(const std::string& dataset);
bool IsKnownDataset(const std::string& dataset);

// The format follows the file's name (.jsonl, .json), else its content. The usable records, at most `limit`
// (0: all). Records without passages, question or answers are skipped; duplicate ids, a bad line and a file
// without usable records are errors.
Result<std::vector<Question>> ReadDataset(const std::string& path, int64_t limit);
// The same from a text; `jsonl` tells the format.
Result<std::vector<Question>> ParseDataset(std::string_view text, const std::string& where, bool jsonl,
                                           int64_t limit);

}  // namespace poolmark::quality
