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

struct Dataset {
  std::vector<Question> questions;
  std::string sha256;           // of the text that was read
  int64_t skipped_records = 0;  // of those read: no passages, question or answer, or no record at all
  std::string first_skipped;    // "record 3 has no question", "line 7 is no object"; "" for none
  int64_t records() const { return static_cast<int64_t>(questions.size()) + skipped_records; }
};

// The file behind --dataset: a known name (hotpotqa, musique) from the local Hugging Face cache, which wins
// over a file of that name, or the path itself. Nothing is downloaded; the error gives the command that does.
Result<std::string> ResolveDataset(const std::string& dataset);
bool IsKnownDataset(const std::string& dataset);

// The format follows the file's name (.jsonl, .json), else its content. The usable records, at most `limit`
// (0: all; what lies behind the last of them is not looked at). Records without passages, question or answers
// are skipped and counted; duplicate ids, a bad line and a file without usable records are errors.
Result<Dataset> ReadDataset(const std::string& path, int64_t limit);
// The same from a text; `jsonl` tells the format.
Result<Dataset> ParseDataset(std::string_view text, const std::string& where, bool jsonl, int64_t limit);

}  // namespace poolmark::quality
