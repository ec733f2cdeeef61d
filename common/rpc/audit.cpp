#include "common/rpc/audit.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

// The last bytes, which hold the last line: messages are bounded (status.cpp).
Result<std::string> ReadTail(const std::string& path) {
  constexpr off_t kTailBytes = 64 << 10;
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return FromErrno(path, "opening it", errno);
  off_t size = lseek(fd, 0, SEEK_END);
  std::string tail(static_cast<size_t>(std::min(size, kTailBytes)), '\0');
  ssize_t count = pread(fd, tail.data(), tail.size(), size - static_cast<off_t>(tail.size()));
  int error = errno;
  close(fd);
  if (count != static_cast<ssize_t>(tail.size())) return FromErrno(path, "reading it", error);
  return tail;
}

}  // namespace

Result<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path, const Clock& clock) {
  std::string last_hash = kFirst;
  if (FileExists(path)) {
    POOLMARK_ASSIGN_OR_RETURN(std::string tail, ReadTail(path));
    if (!tail.empty() && tail.back() != '\n') {
      POOLMARK_RETURN_IF_ERROR(AppendFile(path, "\n", true, 0600));
    } else if (!tail.empty()) {
      tail.pop_back();
    }
    size_t before = tail.rfind('\n');
    if (!tail.empty()) last_hash = Sha256Hex(before == std::string::npos ? tail : tail.substr(before + 1));
  }
  return std::unique_ptr<AuditLog>(new AuditLog(path, last_hash, clock));
}

void AuditLog::Add(const AuditEntry& entry) {
  std::lock_guard lock(mutex_);
  Json json = {{"time", IsoUtc(clock_.Wall())}, {"who", entry.who},
               {"serial", entry.serial},        {"peer", entry.peer},
               {"method", entry.method},        {"arguments", Json::object()},
               {"result", entry.result},        {"previous", last_hash_}};
  for (const auto& [name, value] : entry.arguments) json["arguments"][name] = ValidUtf8(value);
  auto line = DumpJson(json);
  if (!line.ok()) return;
  Status written = AppendFile(path_, *line + "\n", false, 0600);
  if (!written.ok()) {
    Log(LogLevel::kError, "audit.write_failed", {{"why", std::string(written.message())}, {"line", *line}});
    return;
  }
  last_hash_ = Sha256Hex(*line);
}

Result<AuditChain> CheckAuditLog(const std::string& path) {
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  AuditChain chain{0, kFirst};
  for (size_t start = 0; start < text.size();) {
    size_t end = text.find('\n', start);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(start, end - start);
    ++chain.lines;
    const std::string where = absl::StrCat(path, ":", chain.lines);
    auto json = ParseJson(line, where);
    if (!json.ok()) return json.status();
    if (!json->is_object() || !json->contains("previous") || (*json)["previous"] != chain.last_sha256) {
      return InvalidInput(where, "it does not follow from the line before",
                          "a line was altered or taken out");
    }
    chain.last_sha256 = Sha256Hex(line);
    start = end + 1;
  }
  return chain;
}

}  // namespace poolmark::rpc
