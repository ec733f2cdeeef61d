#include "agent/guard/run.h"

#include <time.h>

namespace poolmark::guard {
namespace {

std::chrono::nanoseconds Now(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

std::chrono::nanoseconds BootNow() {
  return Now(CLOCK_BOOTTIME);
}
std::chrono::nanoseconds WallNow() {
  return Now(CLOCK_REALTIME);
}

uint64_t EventLog::Add(Record event) {
  ++last_;
  Record numbered("event");
  numbered.Add("seq", last_).Add("time", WallNow().count());
  for (auto& field : event.fields) numbered.fields.push_back(std::move(field));
  events_.push_back(std::move(numbered));
  if (events_.size() > kLimit) events_.pop_front();
  return last_;
}

Fault Run::Open(const std::string& path, std::vector<std::string>* damages) {
  Fault fault = ledger_.Open(path);
  if (!fault.ok()) return fault;
  LedgerContent content = ReadLedger(path);
  state_ = Fold(content.records);
  next_number_ = state_.next_number();
  if (content.whole_bytes > 0) *damages = content.damages;
  return {};
}

Fault Run::Append(const std::vector<Record>& records) {
  Fault fault = ledger_.Append(records);
  if (!fault.ok()) return fault;
  for (const Record& record : records) state_.Apply(record);
  return {};
}

void Run::Note(const Record& record) {
  (void)ledger_.Append(record).ok();
  state_.Apply(record);
}

Record Run::Intend(const std::string& kind, const std::string& name, uint64_t* number) {
  *number = next_number_++;
  return Record("intend").Add("n", *number).Add("kind", kind).Add("name", name);
}

}  // namespace poolmark::guard
