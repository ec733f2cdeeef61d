// What is said of several points or repeats, said once: sentences that differ only in their figures count as
// one. Internal to this directory; pure.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/results/summary_file.h"

namespace poolmark::report {

// A sentence once, with what it is about.
class Sentences {
 public:
  // `who`: "base, 6 users, in repeat 2"; `point`: "base, 6 users".
  void Add(const std::string& sentence, const std::string& who, const std::string& point);
  // The notes of a point's repeats; repeats are named where not all of them have it. `name` may be empty.
  void AddNotes(const results::SummaryPoint& point, const std::string& name);
  // `all` points: a sentence about each of them, in all their repeats, is about every one.
  std::vector<std::string> Lines(size_t all) const;

 private:
  struct Entry {
    std::string first;
    bool alike = false;
    std::vector<std::string> who;
    std::set<std::string> points;
  };
  std::map<std::string, Entry> entries_;  // by the sentence without its figures
  std::vector<std::string> order_;
};

}  // namespace poolmark::report
