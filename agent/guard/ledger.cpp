#include "agent/guard/ledger.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <array>
#include <cstdio>

namespace poolmark::guard {
namespace {

constexpr off_t kReserveBytes = 1 << 20;
constexpr uint64_t kMaxLedger = 256u << 20;

uint32_t Crc32(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = (c & 1) != 0 ? 0xedb88320u ^ (c >> 1) : c >> 1;
      made[i] = c;
    }
    return made;
  }();
  uint32_t crc = 0xffffffffu;
  for (char byte : bytes) crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ (crc >> 8);
  return crc ^ 0xffffffffu;
}

std::string Line(const Record& record) {
  std::string text = Encode(record);
  char crc[16];
  std::snprintf(crc, sizeof crc, "%08x ", Crc32(text));
  return crc + text + "\n";
}

std::optional<Record> ReadLine(std::string_view line) {
  if (line.size() < 10 || line[8] != ' ') return std::nullopt;
  std::string_view text = line.substr(9);
  char crc[16];
  std::snprintf(crc, sizeof crc, "%08x", Crc32(text));
  if (line.substr(0, 8) != crc) return std::nullopt;
  return Decode(text);
}

bool IsDirectoryOf(const std::string& path, std::string* directory) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos) return false;
  *directory = slash == 0 ? "/" : path.substr(0, slash);
  return true;
}

}  // namespace

LedgerContent ReadLedger(const std::string& path) {
  LedgerContent content;
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat facts;
  if (!fd || fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
      static_cast<uint64_t>(facts.st_size) > kMaxLedger) {
    content.damages.push_back(path + ": cannot be read as a ledger");
    return content;
  }
  std::string text(static_cast<size_t>(facts.st_size), '\0');
  size_t have = 0;
  while (have < text.size()) {
    ssize_t got = pread(fd.get(), text.data() + have, text.size() - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<size_t>(got);
  }
  text.resize(have);
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    ++number;
    if (end == std::string::npos) {
      content.torn_tail = true;
      break;
    }
    if (auto record = ReadLine(std::string_view(text).substr(begin, end - begin))) {
      content.records.push_back(std::move(*record));
    } else {
      content.damages.push_back(path + ":" + std::to_string(number) + ": damaged line");
    }
    begin = end + 1;
    content.whole_bytes = begin;
  }
  if (content.records.empty() || content.records.front().name != "run") {
    content.damages.push_back(path + ":1: the ledger has no head");
  }
  return content;
}

bool LedgerIsLocked(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return false;
  return flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

Fault Ledger::Open(const std::string& path) {
  path_ = path;
  bool is_new = access(path.c_str(), F_OK) != 0;
  fd_ = UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd_) return Fault::Errno("open ledger '" + path + "'");
  if (flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    return Fault("busy", "ledger '" + path + "' is held by another guard");
  }
  size_ = is_new ? 0 : ReadLedger(path).whole_bytes;
  if (ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0) return Fault::Errno("cut ledger '" + path + "'");
  // Refused by some file systems; appends then may fail when the disk is full, and are refused in turn.
  (void)fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size_) + kReserveBytes);
  if (fsync(fd_.get()) != 0) return Fault::Errno("sync ledger '" + path + "'");
  std::string directory;
  if (is_new && IsDirectoryOf(path, &directory)) {
    UniqueFd parent(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!parent || fsync(parent.get()) != 0) return Fault::Errno("sync directory '" + directory + "'");
  }
  return {};
}

Fault Ledger::Append(const std::vector<Record>& records) {
  if (failed_) return Fault("ledger", "ledger '" + path_ + "' failed before: nothing more can be created");
  std::string text;
  for (const Record& record : records) text += Line(record);
  size_t written = 0;
  while (written < text.size()) {
    ssize_t got =
        pwrite(fd_.get(), text.data() + written, text.size() - written, static_cast<off_t>(size_ + written));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      Fault fault("ledger", "write ledger '" + path_ + "': " + std::strerror(got == 0 ? ENOSPC : errno));
      if (ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0) failed_ = true;
      return fault;
    }
    written += static_cast<size_t>(got);
  }
  if (fdatasync(fd_.get()) != 0) {
    failed_ = true;  // after a failed sync the kernel may have dropped the pages: never retry
    return Fault("ledger", "sync ledger '" + path_ + "': " + std::strerror(errno));
  }
  size_ += written;
  return {};
}

}  // namespace poolmark::guard
