// requests.jsonl.zst: one JSON object a line, documented field by field in docs/load.md. The writer is made
// for the load's loops (appends text, no tree); the reader takes any order of keys, refuses unknown
// outcomes and wrong types with file and line. Functions are pure; a RecordReader is not thread-safe.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/load/record.h"

namespace poolmark::load {

// Appends the record as one line with its line end.
void AppendRecord(const RequestRecord& record, std::string* out);
// One line. `where` (file:line) leads errors.
Result<RequestRecord> ParseRecord(std::string_view line, std::string_view where);

class RecordReader {
 public:
  // .zst or plain.
  static Result<std::unique_ptr<RecordReader>> Open(const std::string& path);
  ~RecordReader();
  // False at the end.
  Result<bool> Next(RequestRecord* record);

 private:
  RecordReader();
  struct State;
  std::unique_ptr<State> state_;
};

// All records of a file, in file order.
Result<std::vector<RequestRecord>> ReadRecords(const std::string& path);

}  // namespace poolmark::load
