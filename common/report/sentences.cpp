#include "common/report/sentences.h"

#include <algorithm>

namespace poolmark::report {
namespace {

// A sentence without its figures.
std::string Shape(const std::string& sentence) {
  std::string out;
  for (const char c : sentence) {
    if ((c < '0' || c > '9') && c != '.') out += c;
  }
  return out;
}

}  // namespace

void Sentences::Add(const std::string& sentence, const std::string& who, const std::string& point) {
  const std::string shape = Shape(sentence);
  Entry& entry = entries_[shape];
  if (entry.who.empty()) {
    entry.first = sentence;
    order_.push_back(shape);
  }
  entry.alike = entry.alike || entry.first != sentence;
  if (std::find(entry.who.begin(), entry.who.end(), who) == entry.who.end()) entry.who.push_back(who);
  entry.points.insert(point);
}

void Sentences::AddNotes(const results::SummaryPoint& point, const std::string& name) {
  std::map<std::string, std::vector<int>> repeats;  // by the sentence without its figures
  for (const auto& repeat : point.repeats) {
    for (const auto& note : repeat.notes) {
      auto& list = repeats[Shape(note)];
      if (list.empty() || list.back() != repeat.repeat) list.push_back(repeat.repeat);
    }
  }
  const auto who = [&](const std::vector<int>& in) {
    if (in.size() == point.repeats.size()) return name;
    std::string list;
    for (const int repeat : in) list += (list.empty() ? "" : ", ") + std::to_string(repeat);
    return name + (name.empty() ? "" : ", ") + (in.size() == 1 ? "in repeat " : "in repeats ") + list;
  };
  for (const auto& repeat : point.repeats) {
    for (const auto& note : repeat.notes) Add(note, who(repeats[Shape(note)]), name);
  }
  for (const auto& note : point.notes) {
    if (!repeats.contains(Shape(note))) Add(note, name, name);
  }
}

std::vector<std::string> Sentences::Lines(size_t all) const {
  std::vector<std::string> out;
  for (const auto& shape : order_) {
    const Entry& entry = entries_.at(shape);
    std::string who;
    for (const auto& one : entry.who) who += (who.empty() ? "" : "; ") + one;
    const bool everywhere = std::set<std::string>(entry.who.begin(), entry.who.end()) == entry.points;
    if (entry.points.size() == all && all > 1 && everywhere) who = "every point";
    out.push_back((who.empty() ? "" : who + ": ") + entry.first +
                  (entry.alike ? " (the figures are those of the first)" : ""));
  }
  return out;
}

}  // namespace poolmark::report
