#include "cli/output/log_join.h"

#include <algorithm>
#include <utility>

namespace poolmark::cli {
namespace {

constexpr size_t kMostHeld = 64u << 20;  // beyond, a log of the same length is taken for the same
constexpr Nanoseconds kHeldFor = std::chrono::seconds(3);
constexpr uint64_t kHashStart = 14695981039346656037u;  // FNV-1a

uint64_t Hash(uint64_t hash, std::string_view data) {
  for (const char c : data) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

}  // namespace

void LogJoin::Take(const Name& name, Log* log, uint64_t offset, uint64_t lost, std::string_view data) {
  const bool anew = !log->known;
  if (anew) {
    log->begin = offset;
    log->hash = kHashStart;
  }
  log->known = true;
  log->next = offset + data.size();
  log->hash = Hash(log->hash, data);
  tell_(name, lost, data, anew);
}

void LogJoin::TakeHeldAsAnother(const Name& name, Log* log) {
  const std::string held = std::exchange(log->held, {});
  const uint64_t from = log->held_from;
  *log = Log();
  Take(name, log, from, 0, held);
}

void LogJoin::Add(const Name& name, uint64_t offset, uint64_t lost, std::string_view data) {
  const Nanoseconds now = clock_->Steady();
  // A log is sent in one go as far as it goes: one that stopped short of what was told is another.
  for (auto& [other, log] : logs_) {
    if (!log.held.empty() && other != name && now - log.heard > kHeldFor) TakeHeldAsAnother(other, &log);
  }
  Log& log = logs_[name];
  if (log.again && !log.held.empty() && now - log.heard > kHeldFor) TakeHeldAsAnother(name, &log);
  log.heard = now;
  if (!log.again) return Take(name, &log, offset, lost, data);
  if (log.held.empty() ||
      offset != log.held_from + log.held.size()) {  // the start, or something was rotated away
    log.held_from = offset;
    log.held.clear();
  }
  log.held += data;
  const uint64_t end = log.held_from + log.held.size();
  if (end < log.next && log.held.size() < kMostHeld) return;
  log.again = false;
  const uint64_t begin = std::max(log.begin, log.held_from);
  const std::string_view held = log.held;
  const std::string_view told =
      begin >= log.next ? std::string_view() : held.substr(begin - log.held_from, log.next - begin);
  // Where its beginning has been rotated away meanwhile, its place alone must do.
  const bool same = log.held_from > log.begin || end < log.next || Hash(kHashStart, told) == log.hash;
  if (!same) return TakeHeldAsAnother(name, &log);
  const std::string rest =
      end > log.next ? log.held.substr(log.next - std::min(log.next, log.held_from)) : "";
  const uint64_t gone = log.held_from > log.next ? log.held_from - log.next : 0;
  log.held.clear();
  if (!rest.empty()) Take(name, &log, std::max(log.next, end - rest.size()), gone, rest);
}

void LogJoin::Again() {
  for (auto& [name, log] : logs_) {
    log.again = log.known;
    log.held.clear();
  }
}

void LogJoin::End() {
  for (auto& [name, log] : logs_) {
    if (!log.held.empty()) TakeHeldAsAnother(name, &log);
  }
}

}  // namespace poolmark::cli
