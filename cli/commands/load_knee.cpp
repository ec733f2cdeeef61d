// `poolmark load --find-knee`: the highest load at which the limits hold, and every level on the way.
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands/load_run.h"
#include "cli/commands/load_support.h"
#include "cli/output/terminal.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/random.h"
#include "common/base/time_format.h"
#include "common/load/knee.h"

namespace poolmark::cli {
namespace {

struct Level {
  double value = 0;
  double share = 0;
  load::Summary summary;
};

// Also the name of its directory, so that it is another one for each level: neighbours are a twentieth apart
// at least.
std::string LevelName(const LoadArguments& a, double value) {
  char text[32];
  std::snprintf(text, sizeof text, a.rate.empty() ? "c%.0f" : "r%.6g", value);
  return text;
}

// The first level of a sweep of rates: one number, since the search makes the levels.
Result<double> FirstRate(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  constexpr double kLeast = 1e-6, kMost = 1e7;
  if (read.ec != std::errc() || read.ptr != end || !(value >= kLeast && value <= kMost))
    return InvalidInput("rate '" + text + "'", "a sweep begins with one number from 1e-6 to 1e7 per second",
                        "give the first level, as in --rate 1; the search makes the others");
  return value;
}

// As --rate reads it, without an exponent, whose sign would be a ramp's.
std::string RateText(double value) {
  char text[400];
  const auto written = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed);
  return std::string(text, written.ptr);
}

double ShareOf(const load::Summary& summary) {
  return summary.goodput.empty() ? 0 : summary.goodput[0].share;
}

// `first`: the level with which the search began.
Result<Level> Measure(const LoadArguments& a, double value, double first) {
  LoadArguments once = a;
  // Prompts of its own for each level: else an engine's prefix cache would know them from the level before.
  once.seed = SplitMix64(a.seed ^ std::bit_cast<uint64_t>(value)).Next();
  if (a.rate.empty()) {
    once.concurrency = static_cast<uint32_t>(value);
    // At least some requests of every user.
    if (a.requests > 0) once.requests = std::max<uint64_t>(a.requests, 4 * once.concurrency);
  } else {
    once.rate = RateText(value);
    // The same length at every level: an overload needs time to show.
    if (a.requests > 0)
      once.requests = static_cast<uint64_t>(std::llround(static_cast<double>(a.requests) * value / first));
  }
  if (!a.out.empty()) once.out = JoinPath(a.out, LevelName(a, value));
  once.exports.clear();
  POOLMARK_ASSIGN_OR_RETURN(load::LoadResult result, RunQuickLoad(once));
  Level level;
  level.value = value;
  level.summary = std::move(result.summary);
  // A level that the client itself could not hold says nothing good about the server.
  level.share = level.summary.client_limited ? 0 : ShareOf(level.summary);
  return level;
}

void PrintLevel(const LoadArguments& a, const Level& level) {
  const load::Summary& s = level.summary;
  const auto p99 = [](const std::optional<load::Distribution>& of) {
    char text[32] = "-";
    if (of.has_value()) std::snprintf(text, sizeof text, "%.3f", of->p99);
    return std::string(text);
  };
  char line[300];
  std::snprintf(
      line, sizeof line, "%-10s %8.1f %% %12.2f %12.1f %12s %12s%s\n", LevelName(a, level.value).c_str(),
      100 * ShareOf(s), s.goodput.empty() ? 0 : s.goodput[0].per_second, s.output_tokens_per_second,
      p99(s.ttft).c_str(), p99(s.time_per_output_token).c_str(), s.client_limited ? "  client too slow" : "");
  ShowOut(line);
}

}  // namespace

int RunKneeSearch(const LoadArguments& a) {
  if (a.slo.empty())
    return LoadFailed(
        InvalidInput("load", "the knee needs limits", "give --slo ttft=2s,tpot=100ms or a preset's name"),
        a.output);
  if (a.requests == 0 && a.duration.empty())
    return LoadFailed(
        InvalidInput("load", "the levels have no end", "give --requests or --duration, for each level"),
        a.output);
  if (a.requests > 0 && !a.duration.empty())
    return LoadFailed(
        InvalidInput("load", "--requests and --duration both say how long a level lasts", "give one of them"),
        a.output);
  load::KneeOptions options;
  const Result<load::Slo> slo = FindSlo(a.slo);
  if (!slo.ok()) return LoadFailed(slo.status(), a.output);
  constexpr double kUsualShare = 0.9;
  options.share = a.knee_share > 0 ? a.knee_share : slo->share.value_or(kUsualShare);
  options.whole = a.rate.empty();
  if (a.rate.empty()) {
    options.first = std::max(1u, a.concurrency);
  } else {
    const Result<double> first = FirstRate(a.rate);
    if (!first.ok()) return LoadFailed(first.status(), a.output);
    options.first = *first;
  }
  // An older sweep's result does not stay beside the levels of a new one.
  for (const char* name : {"knee.json", "report.html"}) {
    if (a.out.empty()) break;
    const auto removed = RemoveTree(JoinPath(a.out, name));
    if (!removed.ok()) return LoadFailed(removed.status(), a.output);
  }
  load::KneeSearch search(options);
  const bool text = a.output == "text";
  Json levels = Json::array();
  if (text) {
    char share[32];
    std::snprintf(share, sizeof share, "%g", 100 * options.share);
    ShowOut("a level holds while " + std::string(share) + " % of its requests are within " +
            Printable(slo->name) + "\n" +
            "level            good    goodput/s     tokens/s  TTFT P99 ms  TPOT P99 ms\n");
  }
  bool client_limited = false, interrupted = false;
  Status broken;
  while (const auto next = search.Next()) {
    const Result<Level> level = Measure(a, *next, options.first);
    if (!level.ok()) {
      broken = level.status();
      break;
    }
    // A level that was cut short says nothing.
    if (level->summary.interrupted) {
      interrupted = true;
      std::fprintf(stderr, "poolmark load: interrupted at level %s; what is told are the levels before it\n",
                   LevelName(a, level->value).c_str());
      break;
    }
    if (!level->summary.files_error.empty()) {
      broken = Unavailable(LevelName(a, level->value), level->summary.files_error);
      break;
    }
    if (level->summary.requests == 0) {
      broken = Unavailable(LevelName(a, level->value), "no request began in the level's measured window",
                           "lengthen the levels, or shorten their warm-up");
      break;
    }
    if (text) PrintLevel(a, *level);
    client_limited = client_limited || level->summary.client_limited;
    const auto& goodput = level->summary.goodput;
    levels.push_back({{"level", level->value},
                      {"directory", a.out.empty() ? Json(nullptr) : Json(LevelName(a, level->value))},
                      {"share", goodput.empty() ? Json(nullptr) : Json(goodput[0].share)},
                      {"client_limited", level->summary.client_limited},
                      {"passed", level->share >= options.share},
                      {"summary", load::SummaryJson(level->summary)}});
    search.Report(level->value, level->share);
  }
  // What was measured is told, whatever ended the search; a knee only by one that came to its end.
  const bool whole = !interrupted && broken.ok();
  const std::optional<double> knee = whole ? search.knee() : std::nullopt;
  const Json json = {{"knee", knee.has_value() ? Json(*knee) : Json(nullptr)},
                     {"interrupted", interrupted},
                     {"error", broken.ok() ? Json(nullptr) : Json(std::string(broken.message()))},
                     {"highest_passed", search.knee().has_value() ? Json(*search.knee()) : Json(nullptr)},
                     {"open_end", search.open_end()},
                     {"share", options.share},
                     {"slo", a.slo},
                     {"client_too_slow_above_knee", client_limited},
                     {"levels", levels}};
  const auto dump = DumpJson(json, 2);
  if (!dump.ok()) return LoadFailed(dump.status(), a.output);
  if (!text) {
    ShowOut(*dump + "\n");
  } else if (knee.has_value()) {
    ShowOut("knee: " + LevelName(a, *knee) + (search.open_end() ? " or more" : "") +
            (client_limited
                 ? "; above it this client was too slow, so that the server's own knee may lie higher"
                 : "") +
            "\n");
  } else if (!whole) {
    ShowOut("knee: not known" +
            (search.knee().has_value() ? ", at least " + LevelName(a, *search.knee()) : std::string()) +
            "\n");
  } else {
    ShowOut(client_limited ? "knee: none; at the first level this client was too slow, so that nothing is "
                             "known of the server\n"
                           : "knee: none; the first level already failed\n");
  }
  if (!a.out.empty()) {
    const std::string path = JoinPath(a.out, "knee.json");
    Status written = MakeDirs(a.out);
    if (written.ok()) written = AtomicWriteFile(path, *dump + "\n");
    if (!written.ok()) return LoadFailed(written, a.output);
  }
  if (interrupted) return 130;
  if (!broken.ok()) return LoadFailed(broken, a.output);
  return knee.has_value() ? 0 : 1;
}

}  // namespace poolmark::cli
