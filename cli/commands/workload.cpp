#include "cli/commands/workload.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands/json_output.h"
#include "cli/output/terminal.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/report/workload_page.h"
#include "common/workload/generate.h"
#include "common/workload/inspect.h"

namespace poolmark::cli {
namespace {

struct InspectFlags {
  std::string file, shape, format, token_scale, html, concurrency, rate, speedup, load_duration, warm_up;
  std::optional<uint32_t> block_tokens, trace_block_tokens;
  std::optional<int64_t> limit;
  std::optional<double> capacity;
  bool json = false;
};

// CLI11's own ranges let NaN through.
CLI::Validator PositiveNumber() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value > 0) return "";
        return "must be a number above 0, is " + text;
      },
      "POSITIVE");
}

Result<int> RunInspect(const InspectFlags& flags) {
  Json spec;
  if (flags.shape.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(spec, workload::DetectWorkload(flags.file));
  } else {
    spec = {{"shape", flags.shape}, {"file", flags.file}};
  }
  if (!flags.format.empty()) spec["format"] = flags.format;
  if (!flags.token_scale.empty()) spec["token_scale"] = flags.token_scale;
  if (flags.limit) spec["limit"] = *flags.limit;
  if (flags.trace_block_tokens) spec["block_tokens"] = *flags.trace_block_tokens;
  if (!flags.load_duration.empty()) spec["load_duration"] = flags.load_duration;
  if (!flags.warm_up.empty()) spec["warm_up"] = flags.warm_up;
  for (const auto& [key, text] :
       {std::pair{"concurrency", flags.concurrency}, {"rate", flags.rate}, {"speedup", flags.speedup}}) {
    if (text.empty()) continue;
    auto level = ParseJson(text, std::string("--") + key);
    spec[key] = level.ok() ? *std::move(level) : Json(text);  // steps of a rate are no JSON
  }
  POOLMARK_ASSIGN_OR_RETURN(const auto parsed, workload::ParseWorkload(spec, flags.file));
  POOLMARK_RETURN_IF_ERROR(workload::CheckLevels(parsed, flags.file));
  POOLMARK_ASSIGN_OR_RETURN(const auto inspection,
                            workload::Inspect(parsed, flags.block_tokens, flags.capacity));
  if (!flags.html.empty())
    POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(flags.html, report::WorkloadPage(inspection)));
  if (flags.json) {
    POOLMARK_ASSIGN_OR_RETURN(const std::string text, DumpJson(workload::ToJson(inspection), 1));
    WriteOut(text + "\n");
  } else {
    WriteOut(Printable(workload::ToText(inspection), true));
  }
  return 0;
}

void AddInspect(CLI::App& parent, int& exit_code) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* inspect =
      parent.add_subcommand("inspect", "Reusable share, working set and reuse by cache size of a workload");
  inspect
      ->add_option("file", flags->file,
                   "A trace, a session file, or a workload as a JSON object with `shape`; .zst too")
      ->required();
  inspect->add_option("--shape", flags->shape, "trace or agentic; by default recognised by the first line");
  inspect->add_option("--format", flags->format,
                      "mooncake, qwen-bailian, azure-2023, azure-2024 or burstgpt");
  inspect
      ->add_option("--trace-block-tokens", flags->trace_block_tokens,
                   "Tokens of the trace's own blocks, where they are not the format's (512, 16)")
      ->check(CLI::Range(1u, 65536u));
  inspect
      ->add_option("--block-tokens", flags->block_tokens,
                   "Count reuse in whole blocks of the engine (default: the trace's own blocks, else 16)")
      ->check(CLI::Range(1u, 65536u));
  inspect->add_option("--token-scale", flags->token_scale, "Shrink every block and output, such as 1/32");
  inspect->add_option("--limit", flags->limit, "Read that many requests or sessions")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));
  inspect->add_option("--load-duration", flags->load_duration,
                      "agentic: how long the load is held, for the measured window (default 20m)");
  inspect->add_option("--warm-up", flags->warm_up,
                      "agentic: seconds of the load that come before the measured window (default 5m)");
  inspect->add_option("--concurrency", flags->concurrency, "Users at once, for the working set");
  inspect->add_option("--rate", flags->rate, "Requests per second, for the working set");
  inspect->add_option("--speedup", flags->speedup, "Trace speed, for the working set");
  inspect
      ->add_option("--capacity-tokens", flags->capacity,
                   "Tokens that the pool's GPU caches hold, for the working set ratio")
      ->check(PositiveNumber());
  inspect->add_option("--html", flags->html, "Also write a page with the picture to this file");
  AddJsonOutput(*inspect, &flags->json, "what was found");
  inspect->callback([flags, &exit_code] {
    const auto result = RunInspect(*flags);
    if (!result.ok()) WriteFailure(result.status(), flags->json);
    exit_code = result.ok() ? *result : 2;
  });
}

struct GenerateFlags {
  std::string spec, out, format = "mooncake";
  uint32_t block_tokens = 512;
  bool json = false;
};

// What was written, and whether another tool finds the reuse in it.
Status PrintGenerated(const GenerateFlags& flags, const workload::Generated& generated) {
  if (flags.json) {
    POOLMARK_ASSIGN_OR_RETURN(const std::string text,
                              DumpJson({{"file", flags.out},
                                        {"requests", generated.requests},
                                        {"notes", generated.notes},
                                        {"reusable", generated.reusable},
                                        {"reusable_written", generated.reusable_written}},
                                       1));
    WriteOut(text + "\n");
  } else {
    char shares[96];
    std::snprintf(shares, sizeof shares, "reusable %.3f %%, of the workload %.3f %%",
                  100 * generated.reusable_written, 100 * generated.reusable);
    WriteOut(Printable(flags.out) + ": " + std::to_string(generated.requests) + " requests, " + shares +
             "\n");
  }
  for (const std::string& note : generated.notes) std::cerr << "poolmark: " << note << "\n";
  if (generated.reusable - generated.reusable_of_prompts > 0.005) {
    std::cerr << "poolmark: with answers: live the prompts reuse earlier answers too, which the file cannot "
                 "say: who replays it reuses less\n";
  }
  if (generated.reusable_of_prompts - generated.reusable_written > 0.005) {
    std::cerr << "poolmark: in blocks of " << flags.block_tokens
              << " tokens reuse is lost: give a smaller --block-tokens, and read the trace with the same "
                 "block_tokens\n";
  }
  return absl::OkStatus();
}

void AddGenerate(CLI::App& parent, int& exit_code) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* generate = parent.add_subcommand(
      "generate",
      "Write a workload's requests as a trace or as token ids, so that another tool can send the same");
  generate
      ->add_option("workload", flags->spec,
                   "Workload as a JSON object with `shape`, or a file that inspect recognises")
      ->required();
  generate
      ->add_option("--format", flags->format,
                   "mooncake: block ids as in the Mooncake traces; tokens: prompts as lists of token ids")
      ->check(CLI::IsMember({"mooncake", "tokens"}));
  generate
      ->add_option(
          "--block-tokens", flags->block_tokens,
          "mooncake: tokens of a block; 512 is the format's own, smaller keeps what shorter prompts share")
      ->check(CLI::Range(1u, 65536u))
      ->capture_default_str();
  generate->add_option("-o,--out", flags->out, "File to write; .zst compresses")->required();
  generate->add_flag("--json", flags->json, "Print what was written as JSON");
  generate->callback([flags, &exit_code] {
    const auto result =
        workload::Generate(flags->spec, {flags->format == "tokens", flags->block_tokens}, flags->out);
    Status done = result.ok() ? PrintGenerated(*flags, *result) : result.status();
    if (!done.ok()) WriteFailure(done, flags->json);
    exit_code = done.ok() ? 0 : 2;
  });
}

}  // namespace

void AddWorkload(CLI::App& app, int& exit_code) {
  CLI::App* workload =
      app.add_subcommand("workload", "What a workload is worth to a cache, without an engine");
  workload->require_subcommand(1);
  AddInspect(*workload, exit_code);
  AddGenerate(*workload, exit_code);
}

}  // namespace poolmark::cli
