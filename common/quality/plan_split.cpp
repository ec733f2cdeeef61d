#include "common/quality/plan_split.h"

namespace poolmark::quality {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  SplitPlan Run() {
    size_t copied = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        const size_t begin = at_;
        String();
        if (depth_ <= 2) word_ = text_.substr(begin, at_ - begin);
        continue;
      }
      if (c == ':' && depth_ <= 2) (depth_ == 1 ? outer_ : inner_) = word_;
      if (c == '{' || c == '[') {
        std::vector<std::string_view>* list = List(c);
        ++depth_;
        ++at_;
        if (list == nullptr) continue;
        out_.rest.append(text_.substr(copied, at_ - copied));
        Elements(list);
        copied = at_;  // at the closing bracket, or the end
        continue;
      }
      if (c == '}' || c == ']') --depth_;
      ++at_;
    }
    out_.rest.append(text_.substr(copied));
    return std::move(out_);
  }

 private:
  // The list that an array opening here belongs to.
  std::vector<std::string_view>* List(char c) {
    if (c != '[' || depth_ != 2 || outer_ != "\"plan\"") return nullptr;
    if (inner_ == "\"store_requests\"" && out_.store_requests.empty()) return &out_.store_requests;
    if (inner_ == "\"samples\"" && out_.samples.empty()) return &out_.samples;
    return nullptr;
  }

  void String() {
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\') {
        ++at_;
      } else if (text_[at_] == '"') {
        ++at_;
        return;
      }
    }
    at_ = text_.size();
  }

  // Up to the array's own closing bracket. An empty piece beside a comma stays, for the parser to refuse.
  void Elements(std::vector<std::string_view>* list) {
    size_t begin = at_;
    int depth = 0;
    auto add = [&](bool last) {
      std::string_view piece = text_.substr(begin, at_ - begin);
      const size_t first = piece.find_first_not_of(kSpace);
      piece = first == std::string_view::npos
                  ? std::string_view()
                  : piece.substr(first, piece.find_last_not_of(kSpace) - first + 1);
      if (!last || !piece.empty() || !list->empty()) list->push_back(piece);
    };
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        String();
        continue;
      }
      if (c == ',' && depth == 0) {
        add(false);
        begin = at_ + 1;
      }
      if (c == '[' || c == '{') ++depth;
      if (c == ']' || c == '}') {
        if (depth == 0) break;
        --depth;
      }
      ++at_;
    }
    add(true);
  }

  const std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string_view word_, outer_, inner_;  // the last string; the keys at depth 1 and 2
  SplitPlan out_;
};

}  // namespace

SplitPlan SplitPlanText(std::string_view text) {
  return Splitter(text).Run();
}

}  // namespace poolmark::quality
