#include "common/rpc/audit.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/time_format.h"

namespace poolmark::rpc {
namespace {

const char kFirst[] = "";  // what the first line's "previous" holds

}  // namespace

Result<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path, const Clock& clock) {
  std::string last_hash = kFirst;
  if (FileExists(path)) {
    POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
    if (!text.empty() && text.back() != '\n') {
      POOLMARK_RETURN_IF_ERROR(AppendFile(path, "\n", true, 0600));
      text += '\n';
    }
    if (!text.empty()) {
      size_t start = text.size() < 2 ? std::string::npos : text.rfind('\n', text.size() - 2);
      last_hash = Sha256Hex(text.substr(start == std::string::npos ? 0 : start + 1,
                                        text.size() - 1 - (start == std::string::npos ? 0 : start + 1)));
    }
  }
  return std::unique_ptr<AuditLog>(new AuditLog(path, last_hash, clock));
}

void AuditLog::Add(const AuditEntry& entry) {
  std::lock_guard lock(mutex_);
  Json json = {{"time", IsoUtc(clock_.Wall())}, {"who", entry.who},
               {"serial", entry.serial},        {"peer", entry.peer},
               {"method", entry.method},        {"result", entry.result},
               {"previous", last_hash_}};
  auto line = DumpJson(json);
  if (!line.ok()) return;
  Status written = AppendFile(path_, *line + "\n", false, 0600);
  if (!written.ok()) {
    Log(LogLevel::kError, "audit.write_failed", {{"why", std::string(written.message())}, {"line", *line}});
    return;
  }
  last_hash_ = Sha256Hex(*line);
}

Result<size_t> CheckAuditLog(const std::string& path) {
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  std::string previous = kFirst;
  size_t number = 0;
  for (size_t start = 0; start < text.size();) {
    size_t end = text.find('\n', start);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(start, end - start);
    ++number;
    auto json = ParseJson(line, absl::StrCat(path, ":", number));
    if (!json.ok()) return json.status();
    if (!json->is_object() || !json->contains("previous") || (*json)["previous"] != previous) {
      return InvalidInput(absl::StrCat(path, ":", number), "it does not follow from the line before",
                          "a line was altered or taken out");
    }
    previous = Sha256Hex(line);
    start = end + 1;
  }
  return number;
}

}  // namespace poolmark::rpc
