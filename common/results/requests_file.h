// A fast reader of requests.jsonl.zst for what the figures need: a report over a million records reads
// gigabytes of text. It checks each line's shape and the fields that it uses; common/load/record_codec.h
// reads everything. Not thread-safe.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/stats/requests.h"

namespace poolmark::results {

// One record's line. Errors name `where` ("file:12").
Status ScanRequest(std::string_view line, const std::string& where, stats::RequestFacts* out,
                   uint64_t* session = nullptr, uint32_t* turn = nullptr, bool* connected = nullptr);

class RequestsReader {
 public:
  // .zst or plain.
  static Result<std::unique_ptr<RequestsReader>> Open(const std::string& path);
  ~RequestsReader();
  // False at the end.
  Result<bool> Next(stats::RequestFacts* request);
  // Of the request read last.
  uint64_t session() const;
  uint32_t turn() const;
  bool connected() const;  // false: there was no connection, so nothing was sent
  uint64_t line_number() const;

 private:
  RequestsReader();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poolmark::results
