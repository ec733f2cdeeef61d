#include "cli/commands/quality.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/commands/quality_commands.h"

namespace poolmark::cli {
namespace {

// What no 64-bit number holds is refused as it was given: the parser would take the nearest one that fits.
CLI::Validator Representable() {
  return CLI::Validator(
      [](std::string& text) {
        int64_t value = 0;
        const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
        if (parsed.ec != std::errc::result_out_of_range) return std::string();
        return absl::StrCat("is ", text, text.starts_with('-') ? ", far too small" : ", far too large");
      },
      "");
}

// As a shell gives it where a variable is not set.
CLI::Validator NotEmpty() {
  return CLI::Validator(
      [](std::string& text) {
        return std::string(text.empty() ? "is empty: give it a value, or leave it out" : "");
      },
      "");
}

CLI::Option* AddOutput(CLI::App* command, std::string* output) {
  return command->add_option("--output,-o", *output, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
}

void AddRun(CLI::App& quality, int& exit_code) {
  auto args = std::make_shared<QualityRunArguments>();
  QualityRunArguments& a = *args;
  CLI::App* run = quality.add_subcommand("run", "Send the same questions to the arms and save their answers");
  run->add_option("--out", a.out, "Results directory (docs/quality.md); arms may be run into it one by one")
      ->required();
  run->add_option("--reference-url", a.reference_url, "Engine that computes everything anew")
      ->check(NotEmpty());
  run->add_option("--control-url", a.control_url, "Engine with the cache on, reusing prefixes alone")
      ->check(NotEmpty());
  run->add_option("--candidate-url", a.candidate_url, "Engine with the reuse that is on trial")
      ->check(NotEmpty());
  run->add_option("--model", a.model, "Model name, as the engines list it")->required();
  run->add_option("--dataset", a.dataset, "hotpotqa, musique, or a .json or .jsonl file")->required();
  run->add_option("--task", a.task, "qa")->capture_default_str();
  run->add_option("--scenario", a.scenario, "independent, reordered or concatenated")->capture_default_str();
  run->add_option("--limit", a.limit, "Questions; 0 for every one")
      ->check(Representable())
      ->capture_default_str();
  run->add_option("--chunk-size", a.chunk_size, "The cache's chunk size in tokens")
      ->check(Representable())
      ->capture_default_str();
  run->add_option("--max-output-tokens", a.max_output_tokens, "Longest answer, reasoning included")
      ->check(Representable())
      ->capture_default_str();
  run->add_option("--template-kwargs", a.template_kwargs, "KEY=VALUE for the chat template; may be repeated")
      ->take_all();
  run->add_option("--seed", a.seed, "Seed of orders and word fillers")
      ->check(Representable())
      ->capture_default_str();
  run->add_option("--filler", a.filler, "dots, dashes or words: what passages are padded with (default dots)")
      ->check(NotEmpty());
  run->add_option("--min-unit-tokens", a.min_unit_tokens,
                  "concatenated: smallest unit (default 8 x chunk size)")
      ->check(Representable());
  run->add_option("--reference-repeats", a.reference_repeats, "Reference passes; two show the noise")
      ->capture_default_str();
  run->add_option("--capture-blend-metrics", a.blend_metrics_url,
                  "Metrics page of the candidate's blend server")
      ->check(NotEmpty());
  run->add_option("--tokenizer", a.tokenizer,
                  "tokenizer.json or its directory (default: the engine's tokenize endpoint)")
      ->check(NotEmpty());
  run->add_option("--tokenize-url", a.tokenize_url,
                  "Engine whose tokenize endpoint counts (default: the first arm's)")
      ->excludes("--tokenizer")
      ->check(NotEmpty());
  run->add_option("--dataset-file", a.dataset_file,
                  "Read the records of --dataset from this file; the settings keep the name")
      ->check(CLI::ExistingFile);
  run->add_option("--progress", a.progress, "text (stderr), or json: a line per event on stdout")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  AddOutput(run, &a.output)->excludes("--progress");
  run->add_option("--settle", a.settle, "Wait before counters are read at each end of a pass")
      ->capture_default_str();
  run->add_option("--timeout", a.timeout, "Longest time of a request")->capture_default_str();
  run->add_option("--api-key-file", a.api_key_file, "File with the engines' key (default: OPENAI_API_KEY)");
  run->add_flag("--resume", a.resume, "Keep passes that are already finished with the same URL");
  run->callback([args, &exit_code] { exit_code = RunQualityRun(*args); });
}

void AddAnalyze(CLI::App& quality, int& exit_code) {
  auto args = std::make_shared<QualityAnalyzeArguments>();
  QualityAnalyzeArguments& a = *args;
  CLI::App* analyze = quality.add_subcommand("analyze", "Compare the arms and give the verdict");
  analyze->add_option("directory", a.directory, "Results directory")->required();
  analyze->add_option("--metric", a.metric, "match, f1 or judge")->capture_default_str();
  analyze->add_option("--tolerance", a.tolerance, "Largest difference that does not matter")
      ->capture_default_str();
  analyze->add_option("--min-blend-share", a.min_blend_share, "Least share of tokens served by blending")
      ->capture_default_str();
  analyze
      ->add_option("--min-reuse-ratio", a.min_reuse_ratio, "concatenated: least reused over expected tokens")
      ->capture_default_str();
  analyze->add_option("--judge-url", a.judge_url, "OpenAI-compatible server of the judge")->check(NotEmpty());
  analyze->add_option("--judge-model", a.judge_model, "The judge's model name")->check(NotEmpty());
  analyze->add_option("--judge-key-file", a.judge_key_file,
                      "File with the judge's key (default: OPENAI_API_KEY)");
  analyze->add_option("--judge-parallel", a.judge_parallel, "Answers rated at once")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  analyze->add_option("--judge-timeout", a.judge_timeout, "Longest time of one rating")
      ->capture_default_str();
  analyze->add_option("--judge-templates", a.judge_templates,
                      "Directory of the two templates (default: the state directory)");
  AddOutput(analyze, &a.output);
  analyze->callback([args, &exit_code] { exit_code = RunQualityAnalyze(*args); });
}

void AddReaders(CLI::App& quality, int& exit_code) {
  auto show_args = std::make_shared<QualityShowArguments>();
  CLI::App* show = quality.add_subcommand("show", "Lost questions side by side");
  show->add_option("directory", show_args->directory, "Results directory")->required();
  show->add_option("--qid", show_args->qid, "One question");
  show->add_flag("--all", show_args->all, "Every question");
  show->add_flag("--responses", show_args->responses, "Full responses too");
  AddOutput(show, &show_args->output);
  show->callback([show_args, &exit_code] { exit_code = RunQualityShow(*show_args); });

  auto verify_dir = std::make_shared<std::string>();
  auto verify_output = std::make_shared<std::string>("text");
  CLI::App* verify = quality.add_subcommand("verify", "Recompute digests, plan invariants, rows and summary");
  verify->add_option("directory", *verify_dir, "Results directory")->required();
  AddOutput(verify, verify_output.get());
  verify->callback(
      [verify_dir, verify_output, &exit_code] { exit_code = RunQualityVerify(*verify_dir, *verify_output); });

  auto a = std::make_shared<std::string>();
  auto b = std::make_shared<std::string>();
  auto compare_output = std::make_shared<std::string>("text");
  CLI::App* compare = quality.add_subcommand("compare", "Two directories with the same run fingerprint");
  compare->add_option("a", *a, "Results directory")->required();
  compare->add_option("b", *b, "Results directory")->required();
  AddOutput(compare, compare_output.get());
  compare->callback(
      [a, b, compare_output, &exit_code] { exit_code = RunQualityCompare(*a, *b, *compare_output); });

  auto report_dir = std::make_shared<std::string>();
  auto out = std::make_shared<std::string>();
  auto report_output = std::make_shared<std::string>("text");
  CLI::App* report = quality.add_subcommand("report", "Write the HTML report");
  report->add_option("directory", *report_dir, "Results directory")->required();
  report->add_option("--out", *out, "File (default: report.html in the directory)");
  AddOutput(report, report_output.get());
  report->callback([report_dir, out, report_output, &exit_code] {
    exit_code = RunQualityReport(*report_dir, *out, *report_output);
  });
}

}  // namespace

void AddQuality(CLI::App& app, int& exit_code) {
  CLI::App* quality = app.add_subcommand("quality", "Does reused KV still give right answers?");
  quality->require_subcommand(1);
  AddRun(*quality, exit_code);
  AddAnalyze(*quality, exit_code);
  AddReaders(*quality, exit_code);
}

}  // namespace poolmark::cli
