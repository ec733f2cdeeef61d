#include "cli/commands/load.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands/load_run.h"
#include "cli/commands/load_support.h"
#include "cli/commands/whole_number.h"

namespace poolmark::cli {
namespace {

CLI::Validator Share() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= 0.01 && value <= 1) return "";
        return "must be from 0.01 to 1, is " + text;
      },
      "FLOAT in [0.01 - 1]");
}

// The first given option that would do nothing, and beside what; "": none.
std::string Useless(const CLI::App& load, const LoadArguments& a) {
  const auto given = [&](const std::string& name) { return load.get_option(name)->count() > 0; };
  const auto beside = [&](const std::string& mode, const std::vector<std::string>& names,
                          bool names_are_useful) -> std::string {
    for (const CLI::Option* option : load.get_options()) {
      const std::string name = option->get_name();
      const bool named = std::find(names.begin(), names.end(), name) != names.end();
      if (option->count() > 0 && name != mode && named != names_are_useful)
        return name + " does nothing with " + mode;
    }
    return "";
  };
  if (given("--from")) return beside("--from", {"--export", "--output"}, true);
  if (given("--plan")) return beside("--plan", {"--out"}, true);
  if (given("--merge")) return beside("--merge", {"--out", "--slo", "--output", "--export"}, true);
  if (given("--find-knee")) return beside("--find-knee", {"--export", "--metrics"}, false);
  if (given("--knee-share")) return "--knee-share does nothing without --find-knee";
  if (given("--vocabulary") && !given("--prompt-ids"))
    return "--vocabulary does nothing without --prompt-ids";
  if (given("--retry-on") && a.retry_attempts == 1)
    return "--retry-on does nothing without --retry-attempts above 1";
  if (given("--ca-file") && a.insecure) return "--ca-file does nothing with --insecure";
  return "";
}

}  // namespace

void AddLoad(CLI::App& app, int& exit_code) {
  auto args = std::make_shared<LoadArguments>();
  LoadArguments& a = *args;
  CLI::App* load = app.add_subcommand("load", "Send a load to an OpenAI-compatible server and measure it");
  load->add_option("--plan", a.plan,
                   "JSON file with the whole load (docs/load.md); progress goes to stdout as JSON lines");
  load->add_option("--merge", a.merge,
                   "Directories of load workers of one plan; their results become one in --out")
      ->delimiter(',');
  load->add_option("--from", a.from, "Export the records of this directory, without a load");
  load->add_option(
          "--url", a.urls,
          "Base URL, with or without /v1: http://HOST:PORT, https://…, HOST:PORT or unix:/run/x.sock; "
          "several (with commas) share the sessions")
      ->delimiter(',');
  load->add_option("--model", a.model, "Model name, as the server lists it");
  load->add_option("--metrics", a.metrics,
                   "Metrics page of an engine, for where its prompt tokens came from; several with commas")
      ->delimiter(',');
  load->add_option("--api", a.api, "chat or completions")
      ->check(CLI::IsMember({"chat", "completions"}))
      ->capture_default_str();
  load->add_option("--api-key-file", a.api_key_file, "File with the key for 'Authorization: Bearer'");
  load->add_option("--header", a.headers, "Further header, 'Name: value'");
  load->add_option("--ca-file", a.ca_file, "PEM file with the CA of an https server");
  load->add_option("--server-name", a.server_name, "Name that the server's certificate carries");
  load->add_flag("--insecure", a.insecure, "Accept any certificate");
  load->add_option("--concurrency,-c", a.concurrency, "Closed loop: users, each with one request in flight");
  load->add_option(
      "--rate,-r", a.rate,
      "Open loop: requests per second; 100:60s for a time, 10-100:60s as a ramp, with commas as steps");
  load->add_option("--arrivals", a.arrivals, "With --rate: constant (default), poisson or gamma");
  load->add_option("--cv", a.cv, "With --arrivals gamma: coefficient of variation of the gaps (default 1)");
  load->add_option("--ramp-up", a.ramp_up, "Closed loop: users start evenly over this time");
  load->add_option("--requests,-n", a.requests, "Requests to measure, after the warm-up")
      ->check(WholeNumber(1));
  load->add_option("--duration", a.duration, "Length of the load with its warm-up, as in 20m");
  load->add_option("--warm-up", a.warm_up, "Time at the start that is not measured")->capture_default_str();
  load->add_option("--warm-up-requests", a.warm_up_requests, "Requests at the start that are not measured")
      ->check(WholeNumber());
  load->add_option("--drain", a.drain, "How long requests in flight may take after the end of the load")
      ->capture_default_str();
  load->add_option("--timeout", a.deadline, "Longest time of a request")->capture_default_str();
  load->add_option("--stall", a.stall, "Longest silence within an answer")->capture_default_str();
  load->add_option("--connect-timeout", a.connect_timeout, "Longest connection set-up")
      ->capture_default_str();
  load->add_option("--keep-alive", a.keep_alive, "Connections idle for longer are not used again")
      ->capture_default_str();
  load->add_option(
      "--max-connections", a.max_connections,
      "Limit of open connections of each process, over all URLs; of a closed loop not below its users");
  load->add_option("--retry-attempts", a.retry_attempts,
                   "Attempts for a request in all; 1: nothing is sent twice")
      ->capture_default_str();
  load->add_option("--retry-on", a.retry_on, "What is tried again: connect, stale, 429, 5xx")
      ->capture_default_str();
  load->add_option("--input-tokens", a.input_tokens, "Prompt tokens of each request")->capture_default_str();
  load->add_option("--output-tokens", a.output_tokens, "max_tokens of each request")->capture_default_str();
  load->add_flag("--prompt-ids", a.prompt_ids, "Send token ids (exact length); needs --api completions");
  load->add_option("--tokenize-url", a.tokenize_url,
                   "Base URL of an engine that counts tokens, for text prompts of exact length");
  load->add_option("--tokenizer", a.tokenizer,
                   "The same by a tokenizer.json or its directory (builds with the local tokenizer)");
  load->add_option("--vocabulary", a.vocabulary, "Token ids are drawn below this")
      ->check(WholeNumber(200))
      ->capture_default_str();
  load->add_flag("--allow-eos", a.allow_eos, "Let answers end early (no ignore_eos)");
  load->add_option("--seed", a.seed,
                   "Seed of prompts and arrivals; another one sends prompts that no cache knows")
      ->check(WholeNumber())
      ->capture_default_str();
  load->add_option("--loops", a.loops,
                   "Event loops (threads); 0: one for every 1 000 users or 2 000 requests/s, at most one "
                   "for each core")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  load->add_option("--processes", a.processes, "Processes that share the load")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  load->add_option("--slo", a.slo,
                   "Limits for goodput: ttft=2s,tpot=100ms,latency=10s,share=0.99, or a preset's name");
  load->add_flag("--find-knee", a.find_knee,
                 "Raise the load step by step until the goodput falls; needs --slo");
  load->add_option("--knee-share", a.knee_share,
                   "Share of requests that must meet the limits; default: the preset's own (MLPerf 0.99, "
                   "DistServe 0.9), else 0.9")
      ->check(Share());
  load->add_option("--out", a.out, "Directory for requests.jsonl.zst, timeline.jsonl and load.json");
  load->add_option("--output,-o", a.output, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  load->add_option("--progress", a.progress, "text, json or none (stderr); default: text on a terminal")
      ->check(CLI::IsMember({"text", "json", "none"}));
  load->add_option("--export", a.exports,
                   "Also write the records as aiperf, vllm or (with a comma) both, into --out")
      ->delimiter(',')
      ->check(CLI::IsMember({"aiperf", "vllm"}));
  load->add_option("--request-id-prefix", a.request_id_prefix, "X-Request-ID is <prefix>-<session>-<turn>")
      ->capture_default_str();
  load->callback([args, load, &exit_code] {
    const std::string useless = Useless(*load, *args);
    exit_code = useless.empty() ? RunLoadCommand(*args)
                                : LoadFailed(InvalidInput("load", useless, "leave it out"), args->output);
  });
}

}  // namespace poolmark::cli
