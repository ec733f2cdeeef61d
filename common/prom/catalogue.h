// The catalogue of series (deploy/catalogue/*.yaml): for each dialect, that is each engine, cache server,
// router, store, exporter and switch OS, which series are kept, what they mean, in which versions they exist,
// which prompt-token source they give, and in which versions they were seen live (decision M14). Facts about
// names live there, formulas in common/stats; how series add up by it is in totals.h. Immutable after loading
// but for Confirm; reads are thread-safe.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/result.h"
#include "common/prom/parser.h"

namespace poolmark::prom {

enum class Kind { kCounter, kGauge, kPeak, kLastEvent };
std::string_view KindName(Kind kind);  // "counter", "gauge", "peak", "last_event"

// ">=0.16", "<0.18", ">=0.16 <0.18", "" (every version). Versions compare by their numbers: "v1.12.1",
// "0.5.6-g3e11e108" and "0.3.13.post1" are 1.12.1, 0.5.6 and 0.3.13.
class VersionRange {
 public:
  static Result<VersionRange> Parse(std::string_view text);
  // An unknown version ("") is in no bounded range: what cannot be known is not claimed.
  bool Contains(std::string_view version) const;
  bool unbounded() const { return since_.empty() && until_.empty(); }
  std::string ToString() const;

 private:
  std::string since_;  // inclusive
  std::string until_;  // exclusive
};
// <0, 0, >0. Missing parts count as zero.
int CompareVersions(std::string_view left, std::string_view right);
// "0.5.6" of "v0.5.6-g3e11e108+cpu"; post-releases keep their mark ("0.3.13.post1").
std::string PlainVersion(std::string_view version);

struct Series {
  std::string name;  // as exposed: "vllm:prompt_tokens_total"
  Kind kind = Kind::kCounter;
  std::string unit;   // tokens, bytes, seconds, watts, ratio, count ...
  double factor = 1;  // value * factor is in `unit` (a page may give milliwatts)
  std::string meaning;
  VersionRange versions;
  std::vector<std::string> seen;  // versions in which it was seen live; "*": our own program, every version
  unsigned width_bits = 64;       // 32: wraps at 2^32, which is no restart
  // How to add up: `split` labels tell parts that stay apart ("source"), all others are copies to be summed,
  // or, with `max`, the same amount reported several times (by each tensor-parallel worker).
  std::vector<std::string> split;
  bool max = false;
  std::vector<std::string> fold;  // labels summed away while sampling ("cpu" on a machine with 200 of them)
};

// Which part of the prompt a series counts.
struct TokenSource {
  std::string gives;  // prompt, gpu, host, storage, remote, computed, external (tier unknown), unattributed
  std::string series;
  Labels labels;
  VersionRange versions;
  std::string moment;  // admission, first_token, finish, schedule
};

struct Evidence {
  std::string version;
  std::string date;      // 2026-11-30
  std::string evidence;  // what ran and what was read
};

struct Dialect {
  std::string name;  // "vllm"
  std::vector<std::string> aliases;
  std::string title;  // "vLLM"
  std::string role;   // engine, cache, router, store, exporter, switch
  bool simulated = false;
  std::string version_from;     // how its version is learnt
  std::string witness;          // the family that must be present before the absence of another means zero
  std::string double_counting;  // how to add up without counting twice
  std::vector<Series> series;
  std::vector<TokenSource> sources;
  std::vector<Evidence> live;

  const Series* Find(std::string_view series_name) const;
  bool Keeps(std::string_view exposed_name) const { return Find(exposed_name) != nullptr; }
  // What tells a restart and is no sample itself: process_start_time_seconds and the witness's `_created`.
  bool MarksRestart(std::string_view exposed_name) const;
  std::unordered_map<std::string, size_t> index;  // name -> position in `series`; filled by the loader
};

class Catalogue {
 public:
  // All *.yaml of a directory; every error of every file at once.
  static Result<Catalogue> Load(const std::string& directory);
  // One file's text, for tests and uploads.
  static Result<Dialect> ReadDialect(std::string_view yaml, const std::string& where);

  // By name or alias.
  const Dialect* Find(std::string_view dialect) const;
  const std::map<std::string, Dialect, std::less<>>& dialects() const { return dialects_; }
  void Add(Dialect dialect);
  // Was this series of this dialect seen live in this version? Unknown dialects, series and versions: no.
  bool Confirmed(std::string_view dialect, std::string_view version, std::string_view series) const;
  // Adds live evidence (poolmark catalogue confirm): those of `seen` that the dialect knows, in `version`.
  // Returns how many are newly confirmed.
  Result<int> Confirm(std::string_view dialect, const Evidence& evidence,
                      const std::vector<std::string>& seen);

 private:
  std::map<std::string, Dialect, std::less<>> dialects_;
};

}  // namespace poolmark::prom
