#include "cli/remote/watch_view.h"

#include "absl/strings/str_cat.h"
#include "cli/remote/show.h"

namespace poolmark::cli {
namespace {

constexpr std::chrono::seconds kPlainProgress{10};

}  // namespace

std::string Bar(uint32_t done, uint32_t total, int width) {
  if (total == 0) return "";
  int full =
      static_cast<int>(static_cast<uint64_t>(std::min(done, total)) * static_cast<uint64_t>(width) / total);
  return absl::StrCat("[", std::string(static_cast<size_t>(full), '#'),
                      std::string(static_cast<size_t>(width - full), '.'), "] ", done, "/", total);
}

std::string Clip(const std::string& text, int width) {
  std::string out;
  int columns = 0;
  for (char c : text) {
    bool first = (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    if (first && ++columns > width) break;
    out += c;
  }
  return out;
}

void WatchView::Show(const v1::JobEvent& event) {
  if (event.state() != v1::JOB_STATE_UNSPECIFIED) state_ = event.state();
  if (event.has_position()) {
    const v1::JobPosition before = position_;
    position_ = event.position();
    if (position_.total_repeats() == 0) {  // ticks of the load do not carry them
      position_.set_done_repeats(before.done_repeats());
      position_.set_total_repeats(before.total_repeats());
    }
  }
  if (event.kind() == "progress") {
    rates_ = ProgressText(event.data_json());
    if (live_) {
      Draw();
    } else if (RealClock().Steady() - last_progress_ >= kPlainProgress) {
      last_progress_ = RealClock().Steady();
      WriteOut(EventLine(event) + "\n");
    }
    return;
  }
  if (event.kind() == "state") rates_.clear();
  Clear();
  std::string line = EventLine(event);
  if (event.kind() == "state") line = Coloured(line, StateColour(event.state()));
  if (event.has_check() && event.check().outcome() == v1::OUTCOME_FAIL) line = Coloured(line, Colour::kRed);
  WriteOut(line + "\n");
  if (live_) Draw();
}

void WatchView::Draw() {
  if (IsTerminal(state_)) return;
  std::string text =
      absl::StrCat(StateWord(state_), "  ", Bar(position_.done_repeats(), position_.total_repeats(), 20));
  v1::JobPosition place = position_;
  place.set_total_repeats(0);  // the bar has them
  place.clear_phase();
  std::string position = PositionText(place);
  // On a narrow terminal what moves is seen before where.
  if (!rates_.empty()) absl::StrAppend(&text, "  ", rates_);
  if (!position.empty()) absl::StrAppend(&text, "  ", position);
  WriteErr("\r\x1b[2K" + Clip(Printable(text), TerminalWidth() - 1));
  drawn_ = true;
}

void WatchView::Clear() {
  if (drawn_) WriteErr("\r\x1b[2K");
  drawn_ = false;
}

}  // namespace poolmark::cli
