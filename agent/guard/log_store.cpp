#include "agent/guard/log_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>

namespace poolmark::guard {
namespace {

// A segment's name is the offset of its first byte.
std::string SegmentName(uint64_t offset) {
  char name[32];
  std::snprintf(name, sizeof name, "%020llu.log", static_cast<unsigned long long>(offset));
  return name;
}

std::optional<uint64_t> SegmentOffset(std::string_view name) {
  if (name.size() != 24 || name.substr(20) != ".log") return std::nullopt;
  uint64_t offset = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + 20, offset);
  if (error != std::errc() || end != name.data() + 20) return std::nullopt;
  return offset;
}

std::vector<uint64_t> Segments(const std::string& directory) {
  std::vector<uint64_t> offsets;
  std::unique_ptr<DIR, int (*)(DIR*)> handle(opendir(directory.c_str()), closedir);
  while (handle) {
    dirent* entry = readdir(handle.get());
    if (entry == nullptr) break;
    if (auto offset = SegmentOffset(entry->d_name)) offsets.push_back(*offset);
  }
  std::sort(offsets.begin(), offsets.end());
  return offsets;
}

uint64_t SizeOf(const std::string& path) {
  struct stat facts;
  return stat(path.c_str(), &facts) == 0 ? static_cast<uint64_t>(facts.st_size) : 0;
}

}  // namespace

Fault LogWriter::Open(const std::string& directory, LogLimits limits, LogWriter* writer) {
  writer->directory_ = directory;
  writer->limits_ = limits;
  writer->limits_.segments = std::max(2u, limits.segments);
  std::vector<uint64_t> there = Segments(directory);
  writer->offset_ = there.empty() ? 0 : there.back() + SizeOf(directory + "/" + SegmentName(there.back()));
  if (!writer->OpenSegment()) return Fault::Errno("create log in '" + directory + "'");
  return {};
}

bool LogWriter::OpenSegment() {
  segment_ = UniqueFd(open((directory_ + "/" + SegmentName(offset_)).c_str(),
                           O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!segment_) return false;
  std::vector<uint64_t> there = Segments(directory_);
  // Entry 0 is the head and stays.
  for (size_t i = 1; i < there.size() && there.size() - (i - 1) > limits_.segments; ++i) {
    unlink((directory_ + "/" + SegmentName(there[i])).c_str());
  }
  return true;
}

void LogWriter::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    struct stat facts;
    bool usable = segment_ && fstat(segment_.get(), &facts) == 0;
    if (!usable || static_cast<uint64_t>(facts.st_size) >= limits_.segment_bytes) {
      if (!OpenSegment()) {
        unwritten_ += bytes.size();
        return;
      }
      facts.st_size = 0;
    }
    size_t room = static_cast<size_t>(limits_.segment_bytes - static_cast<uint64_t>(facts.st_size));
    ssize_t got = write(segment_.get(), bytes.data(), std::min(bytes.size(), room));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      unwritten_ += bytes.size();
      return;
    }
    offset_ += static_cast<uint64_t>(got);
    bytes.remove_prefix(static_cast<size_t>(got));
  }
}

uint64_t LogReader::End() const {
  std::vector<uint64_t> there = Segments(directory_);
  return there.empty() ? 0 : there.back() + SizeOf(directory_ + "/" + SegmentName(there.back()));
}

LogPiece LogReader::Read(uint64_t offset, size_t limit) const {
  LogPiece piece;
  piece.offset = offset;
  for (uint64_t begin : Segments(directory_)) {
    std::string path = directory_ + "/" + SegmentName(begin);
    uint64_t end = begin + SizeOf(path);
    if (end <= offset) continue;
    piece.offset = std::max(begin, offset);
    piece.lost_bytes = piece.offset - offset;
    UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) continue;  // rotated away just now
    piece.data.resize(static_cast<size_t>(std::min<uint64_t>(limit, end - piece.offset)));
    ssize_t got =
        pread(fd.get(), piece.data.data(), piece.data.size(), static_cast<off_t>(piece.offset - begin));
    piece.data.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return piece;
  }
  return piece;
}

}  // namespace poolmark::guard
