// `poolmark load --find-knee`: the highest load at which the limits hold, and every level on the way.
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands/load_run.h"
#include "cli/commands/load_support.h"
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

std::string LevelName(const LoadArguments& a, double value) {
  char text[32];
  std::snprintf(text, sizeof text, a.rate.empty() ? "c%.0f" : "r%.2f", value);
  return text;
}

Result<Level> Measure(const LoadArguments& a, double value) {
  LoadArguments once = a;
  // Prompts of its own for each level: else an engine's prefix cache would know them from the level before.
  once.seed = SplitMix64(a.seed ^ (static_cast<uint64_t>(std::llround(value * 1000)) << 20)).Next();
  if (a.rate.empty()) {
    once.concurrency = static_cast<uint32_t>(value);
    // As many requests a user at every level, so that each level is measured about as long.
    once.requests = a.duration.empty() ? std::max<uint64_t>(a.requests, 4 * once.concurrency) : 0;
  } else {
    once.rate = std::to_string(value);
  }
  if (!a.out.empty()) once.out = JoinPath(a.out, LevelName(a, value));
  once.export_format.clear();
  POOLMARK_ASSIGN_OR_RETURN(load::LoadResult result, RunQuickLoad(once));
  Level level;
  level.value = value;
  level.summary = std::move(result.summary);
  // A level that the client itself could not hold says nothing good about the server.
  level.share =
      level.summary.goodput.empty() || level.summary.client_limited ? 0 : level.summary.goodput[0].share;
  return level;
}

void PrintLevel(const LoadArguments& a, const Level& level) {
  const load::Summary& s = level.summary;
  const auto p99 = [](const std::optional<load::Distribution>& of) {
    char text[32] = "-";
    if (of.has_value()) std::snprintf(text, sizeof text, "%.3f", of->p99);
    return std::string(text);
  };
  std::printf("%-10s %8.1f %% %12.2f %12.1f %12s %12s%s\n", LevelName(a, level.value).c_str(),
              100 * s.goodput[0].share, s.goodput[0].per_second, s.output_tokens_per_second,
              p99(s.ttft).c_str(), p99(s.time_per_output_token).c_str(),
              s.client_limited ? "  client too slow" : "");
  std::fflush(stdout);
}

}  // namespace

int RunKneeSearch(const LoadArguments& a) {
  if (a.slo.empty())
    return LoadFailed(
        InvalidInput("load", "the knee needs limits", "give --slo ttft=2s,tpot=100ms or a preset's name"));
  if (a.requests == 0 && a.duration.empty())
    return LoadFailed(
        InvalidInput("load", "the levels have no end", "give --requests or --duration, for each level"));
  load::KneeOptions options;
  const Result<load::Slo> slo = FindSlo(a.slo);
  if (!slo.ok()) return LoadFailed(slo.status());
  constexpr double kUsualShare = 0.9;
  options.share = a.knee_share > 0 ? a.knee_share : slo->share.value_or(kUsualShare);
  options.whole = a.rate.empty();
  options.first = a.rate.empty() ? std::max(1u, a.concurrency) : std::strtod(a.rate.c_str(), nullptr);
  if (!(options.first > 0))
    return LoadFailed(InvalidInput("load", "rate '" + a.rate + "' is no number to begin with",
                                   "give the first level, as in --rate 1"));
  load::KneeSearch search(options);
  const bool text = a.output == "text";
  Json levels = Json::array();
  if (text)
    std::printf("a level holds while %g %% of its requests are within %s\n", 100 * options.share,
                slo->name.c_str());
  if (text)
    std::printf("%-10s %10s %12s %12s %12s %12s\n", "level", "good", "goodput/s", "tokens/s", "TTFT P99 ms",
                "TPOT P99 ms");
  std::string why;
  bool interrupted = false;
  Status broken;
  while (const auto next = search.Next()) {
    const Result<Level> level = Measure(a, *next);
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
    if (text) PrintLevel(a, *level);
    if (level->summary.client_limited)
      why = "; above it this client was too slow, so that the server's own knee may lie higher";
    levels.push_back({{"level", level->value},
                      {"share", level->summary.goodput[0].share},
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
                     {"client_too_slow_above_knee", !why.empty()},
                     {"levels", levels}};
  const auto dump = DumpJson(json, 2);
  if (!dump.ok()) return LoadFailed(dump.status());
  if (!text) {
    std::printf("%s\n", dump->c_str());
  } else if (knee.has_value()) {
    std::printf("knee: %s%s%s\n", LevelName(a, *knee).c_str(), search.open_end() ? " or more" : "",
                why.c_str());
  } else if (!whole) {
    std::printf("knee: not known%s%s\n", search.knee().has_value() ? ", at least " : "",
                search.knee().has_value() ? LevelName(a, *search.knee()).c_str() : "");
  } else {
    std::printf("knee: none; the first level already failed%s\n", why.c_str());
  }
  if (!a.out.empty()) {
    const std::string path = JoinPath(a.out, "knee.json");
    Status written = MakeDirs(a.out);
    if (written.ok()) written = AtomicWriteFile(path, *dump + "\n");
    if (!written.ok()) return LoadFailed(written);
  }
  if (interrupted) return 130;
  if (!broken.ok()) return LoadFailed(broken);
  return knee.has_value() ? 0 : 1;
}

}  // namespace poolmark::cli
