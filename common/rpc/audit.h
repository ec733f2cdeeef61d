// The audit log: who changed what, one JSON line for each call that changes something and each call that was
// denied, apart from the debug log. Every line carries the SHA-256 of the line before, so that a line cannot
// be altered or taken out unnoticed. Thread-safe.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::rpc {

struct AuditEntry {
  std::string who;     // "operator olga", "" before enrolment
  std::string serial;  // of the certificate
  std::string peer;    // "ipv4:10.0.0.7:4711"
  std::string method;  // "ControllerService/CancelJob"
  // What it was about: names and values of the request's own words, and the SHA-256 of all of it.
  std::vector<std::pair<std::string, std::string>> arguments;
  std::string result;  // "ok", or the status code's name and message
};

class AuditLog {
 public:
  // Continues the chain of a file that exists; half a last line (a power cut) is ended and noted as a broken
  // link.
  static Result<std::unique_ptr<AuditLog>> Open(const std::string& path, const Clock& clock);
  // A failure to write is logged; the call it belongs to goes on.
  void Add(const AuditEntry& entry);

 private:
  AuditLog(std::string path, std::string last_hash, const Clock& clock)
      : path_(std::move(path)), clock_(clock), last_hash_(std::move(last_hash)) {}
  const std::string path_;
  const Clock& clock_;
  std::mutex mutex_;  // guards last_hash_ and the order of lines
  std::string last_hash_;
};

// Checks the chain of a file: the number of lines, or the first line that does not follow from the one
// before.
struct AuditChain {
  size_t lines = 0;
  std::string last_sha256;  // of the last line; "" for an empty file
};
Result<AuditChain> CheckAuditLog(const std::string& path);

}  // namespace poolmark::rpc
