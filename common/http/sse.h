// Incremental server-sent events (WHATWG HTML, section 9.2.6): any line end (LF, CRLF, CR), comments,
// fields with and without the space, several data lines, a byte order mark, events cut anywhere or many in
// one piece. Only LF and CR end lines: U+2028 and U+0085 inside text do not. Beyond the standard: the last
// event counts without its blank line (End), and an event with a name but no data is given too, since
// servers report errors so (`event: error` and a comment). No copy where an event lies within one piece.
// Not thread-safe.
#pragma once
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace poolmark::http {

struct SseEvent {
  std::string_view name;     // "" for the usual, unnamed event
  std::string_view data;     // data lines joined with LF
  std::string_view comment;  // the last comment since the event before; "" mostly
};

class SseParser {
 public:
  explicit SseParser(size_t max_event_bytes = 16u << 20) : max_event_bytes_(max_event_bytes) {}

  void Reset() {
    line_.clear();
    ClearEvent();
    skip_lf_ = false;
    at_start_ = true;
  }

  // Calls sink(const SseEvent&) for every event that ends in `piece`. False when an event is larger than the
  // limit.
  template <class Sink>
  bool Feed(std::string_view piece, Sink&& sink) {
    const char* at = piece.data();
    const char* const end = at + piece.size();
    const char* lf = nullptr;  // the next LF, looked for once
    bool lf_known = false;
    while (at < end) {
      if (skip_lf_) {
        skip_lf_ = false;
        if (*at == '\n') {
          ++at;
          continue;
        }
      }
      if (!lf_known || (lf != nullptr && lf < at)) {
        lf = static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
        lf_known = true;
      }
      const char* const limit = lf == nullptr ? end : lf;
      const char* const cr = static_cast<const char*>(std::memchr(at, '\r', static_cast<size_t>(limit - at)));
      const char* const stop = cr == nullptr ? lf : cr;
      if (stop == nullptr) {  // the line goes on in the next piece
        line_.append(at, end);
        if (line_.size() + data_.size() > max_event_bytes_) return false;
        break;
      }
      skip_lf_ = stop == cr;
      if (line_.empty()) {
        TakeLine(std::string_view(at, static_cast<size_t>(stop - at)), false, sink);
      } else {
        line_.append(at, stop);
        // Its own string until the line is taken: `line_` must not change under a view.
        taken_.swap(line_);
        line_.clear();
        TakeLine(taken_, true, sink);
      }
      if (data_.size() + pending_.size() > max_event_bytes_) return false;
      at = stop + 1;
    }
    KeepPending();
    return true;
  }

  // The stream ended: gives an event whose blank line is missing.
  template <class Sink>
  void End(Sink&& sink) {
    if (!line_.empty()) {
      taken_.swap(line_);
      line_.clear();
      TakeLine(taken_, true, sink);
    }
    KeepPending();
    TakeLine("", false, sink);
  }

 private:
  template <class Sink>
  void TakeLine(std::string_view line, bool volatile_line, Sink& sink) {
    if (at_start_) {
      at_start_ = false;
      if (line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
    }
    if (line.empty()) {
      if (has_data_ || !name_.empty()) {
        const SseEvent event{name_, pending_.data() != nullptr ? pending_ : std::string_view(data_),
                             comment_};
        sink(event);
      }
      ClearEvent();
      return;
    }
    const size_t colon = line.find(':');
    const std::string_view field = line.substr(0, colon);
    std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (field == "data") {
      if (!has_data_ && !volatile_line) {
        pending_ = value.data() != nullptr ? value : std::string_view("");
      } else {
        KeepPending();
        if (has_data_) data_ += '\n';
        data_.append(value);
      }
      has_data_ = true;
    } else if (field == "event") {
      name_ = value;
    } else if (field.empty()) {
      comment_ = value.substr(0, kMaxComment);
    }
  }

  // A view into the piece must not outlive the call.
  void KeepPending() {
    if (pending_.data() == nullptr) return;
    data_.assign(pending_);
    pending_ = std::string_view();
  }

  void ClearEvent() {
    data_.clear();
    pending_ = std::string_view();
    name_.clear();
    comment_.clear();
    has_data_ = false;
  }

  static constexpr size_t kMaxComment = 1000;

  size_t max_event_bytes_;
  std::string line_;          // an unfinished line
  std::string taken_;         // a line that was put together
  std::string data_;          // data of the event so far, where it is no view
  std::string_view pending_;  // data of the event so far, where it is one line within the piece
  std::string name_;
  std::string comment_;
  bool has_data_ = false;
  bool skip_lf_ = false;
  bool at_start_ = true;
};

}  // namespace poolmark::http
