#include "common/prom/catalogue.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/prom/simulated.h"

namespace poolmark::prom {
namespace {

constexpr std::string_view kTotal = "_total";

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Next number of a version, or -1 at its end; separators and letters are skipped.
long NextNumber(std::string_view* text) {
  while (!text->empty() && (text->front() < '0' || text->front() > '9')) text->remove_prefix(1);
  if (text->empty()) return -1;
  long number = 0;
  while (!text->empty() && text->front() >= '0' && text->front() <= '9') {
    number = std::min(number * 10 + (text->front() - '0'), 1'000'000'000L);
    text->remove_prefix(1);
  }
  return number;
}

}  // namespace

std::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kCounter:
      return "counter";
    case Kind::kGauge:
      return "gauge";
    case Kind::kPeak:
      return "peak";
    case Kind::kLastEvent:
      return "last_event";
  }
  return "counter";
}

std::string PlainVersion(std::string_view version) {
  if (!version.empty() && (version.front() == 'v' || version.front() == 'V')) version.remove_prefix(1);
  // "-g3e11e108", "-3e11e108" and "+cpu" name a build; "1.10.0rc1" stays
  return std::string(version.substr(0, version.find_first_of("-+ ")));
}

int CompareVersions(std::string_view left, std::string_view right) {
  const std::string a = PlainVersion(left), b = PlainVersion(right);
  std::string_view x = a, y = b;
  for (;;) {
    const long m = NextNumber(&x), n = NextNumber(&y);
    if (m < 0 && n < 0) return 0;
    if (std::max(m, 0L) != std::max(n, 0L)) return std::max(m, 0L) < std::max(n, 0L) ? -1 : 1;
  }
}

Result<VersionRange> VersionRange::Parse(std::string_view text) {
  VersionRange range;
  const auto bad = [&] {
    return InvalidInput("", absl::StrCat("malformed version range '", std::string(text), "'"),
                        "write '>=0.16', '<0.18' or '>=0.16 <0.18'");
  };
  size_t at = 0;
  while (at < text.size()) {
    if (text[at] == ' ') {
      ++at;
      continue;
    }
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end;
    std::string* into = nullptr;
    size_t skip = 0;
    if (word.substr(0, 2) == ">=") {
      into = &range.since_;
      skip = 2;
    } else if (word.substr(0, 1) == "<" && word.substr(0, 2) != "<=") {
      into = &range.until_;
      skip = 1;
    } else {
      return bad();
    }
    std::string_view digits = word.substr(skip);
    if (digits.empty() || digits.front() < '0' || digits.front() > '9' || !into->empty()) return bad();
    *into = std::string(digits);
  }
  return range;
}

bool VersionRange::Contains(std::string_view version) const {
  if (unbounded()) return true;
  if (version.empty()) return false;
  if (!since_.empty() && CompareVersions(version, since_) < 0) return false;
  return until_.empty() || CompareVersions(version, until_) < 0;
}

std::string VersionRange::ToString() const {
  std::string text;
  if (!since_.empty()) text = absl::StrCat(">=", since_);
  if (!until_.empty()) absl::StrAppend(&text, text.empty() ? "" : " ", "<", until_);
  return text;
}

const Series* Dialect::Find(std::string_view series_name) const {
  const auto found = index.find(std::string(series_name));
  return found == index.end() ? nullptr : &series[found->second];
}

bool Dialect::MarksRestart(std::string_view exposed_name) const {
  if (exposed_name == "process_start_time_seconds") return true;
  std::string_view base = witness;
  if (base.empty() || !EndsWith(exposed_name, "_created")) return false;
  if (EndsWith(base, kTotal)) base.remove_suffix(kTotal.size());
  return exposed_name.substr(0, exposed_name.size() - 8) == base;
}

const Dialect* Catalogue::Find(std::string_view dialect) const {
  const auto found = dialects_.find(dialect);
  if (found != dialects_.end()) return &found->second;
  for (const auto& [name, candidate] : dialects_) {
    if (std::find(candidate.aliases.begin(), candidate.aliases.end(), dialect) != candidate.aliases.end()) {
      return &candidate;
    }
  }
  return nullptr;
}

void Catalogue::Add(Dialect dialect) {
  dialect.index.clear();
  for (size_t i = 0; i < dialect.series.size(); ++i) dialect.index[dialect.series[i].name] = i;
  dialects_[dialect.name] = std::move(dialect);
}

bool Catalogue::Confirmed(std::string_view dialect, std::string_view version, std::string_view series) const {
  const Dialect* found = Find(dialect);
  const Series* entry = found == nullptr ? nullptr : found->Find(series);
  if (entry == nullptr) return false;
  // What a simulated engine says under another's names confirms nothing about that other.
  if (IsSimulatedVersion(version) && !found->simulated) return false;
  const std::string plain = PlainVersion(version);
  for (const std::string& seen : entry->seen) {
    if (seen == "*" || (!plain.empty() && PlainVersion(seen) == plain)) return true;
  }
  return false;
}

Result<int> Catalogue::Confirm(std::string_view dialect, const Evidence& evidence,
                               const std::vector<std::string>& seen) {
  const Dialect* found = Find(dialect);
  if (found == nullptr) {
    return NotFound("", absl::StrCat("no dialect '", std::string(dialect), "' in the catalogue"),
                    "see 'poolmark catalogue list'");
  }
  if (PlainVersion(evidence.version).empty()) {
    return InvalidInput("", "evidence without a version proves nothing", "give the version that runs");
  }
  if (IsSimulatedVersion(evidence.version) && !found->simulated) {
    return InvalidInput("", absl::StrCat("'", evidence.version, "' is a simulated engine"),
                        "it proves nothing about " + found->name);
  }
  Dialect& known = dialects_[found->name];
  int added = 0;
  for (const std::string& name : seen) {
    const auto at = known.index.find(name);
    if (at == known.index.end() || Confirmed(dialect, evidence.version, name)) continue;
    known.series[at->second].seen.push_back(PlainVersion(evidence.version));
    ++added;
  }
  if (added > 0) known.live.push_back(evidence);
  return added;
}

}  // namespace poolmark::prom
