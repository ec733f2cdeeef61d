#include "agent/guard/items.h"

namespace poolmark::guard {

const char* GoneStateName(GoneState state) {
  switch (state) {
    case GoneState::kOpen:
      return "open";
    case GoneState::kGone:
      return "gone";
    case GoneState::kAlreadyGone:
      return "already_gone";
    case GoneState::kLeft:
      return "left";
    case GoneState::kUnknown:
      return "unknown";
  }
  return "unknown";
}

GoneState GoneStateOf(const std::string& name) {
  for (GoneState state : {GoneState::kOpen, GoneState::kGone, GoneState::kAlreadyGone, GoneState::kLeft}) {
    if (name == GoneStateName(state)) return state;
  }
  return GoneState::kUnknown;
}

void RunState::Apply(const Record& record) {
  uint64_t number = record.Unsigned("n").value_or(0);
  if (record.name == "run") {
    run = record.Get("run");
    job = record.Get("job");
    boot = record.Get("boot");
    epoch = std::max(epoch, record.Unsigned("epoch").value_or(0));
  } else if (record.name == "epoch") {
    epoch = std::max(epoch, record.Unsigned("epoch").value_or(0));
  } else if (record.name == "intend" && number != 0) {
    Item item;
    item.number = number;
    item.kind = record.Get("kind");
    item.name = record.Get("name");
    item.intent = record;
    if (record.Has("request")) requests.insert(record.Get("request"));
    items[number] = std::move(item);
    torn_down = clean = tearing_down = false;
  } else if (record.name == "teardown") {
    tearing_down = true;
    cause = record.Get("cause");
    keep = record.Get("keep") == "1";
  } else if (record.name == "torn_down") {
    tearing_down = false;
    torn_down = true;
    clean = record.Get("clean") == "1";
    finished = !keep;
  } else if (auto found = items.find(number); found != items.end()) {
    Item& item = found->second;
    if (record.name == "made") {
      if (item.made.name.empty()) {
        item.made = record;
      } else {
        for (const auto& [key, value] : record.fields) {
          if (key != "n") item.made.Add(key, value);
        }
      }
    } else if (record.name == "exit") {
      item.exit = record;
    } else if (record.name == "gone") {
      item.state = GoneStateOf(record.Get("state"));
      item.proof = record.Get("proof");
      item.detail = record.Get("detail");
      item.forced = record.Get("forced") == "1";
    }
  }
}

uint32_t RunState::open_items() const {
  uint32_t count = 0;
  for (const auto& [number, item] : items) count += item.owed() ? 1 : 0;
  return count;
}

std::vector<uint64_t> RunState::OwedNewestFirst() const {
  std::vector<uint64_t> numbers;
  for (auto it = items.rbegin(); it != items.rend(); ++it) {
    if (it->second.owed()) numbers.push_back(it->first);
  }
  return numbers;
}

RunState Fold(const std::vector<Record>& records) {
  RunState state;
  for (const Record& record : records) state.Apply(record);
  return state;
}

}  // namespace poolmark::guard
