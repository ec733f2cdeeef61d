#include "agent/sim/options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <functional>

#include "common/base/time_format.h"
#include "common/base/units.h"
#include "common/base/version.h"

namespace poolmark::sim {
namespace {

// An option whose text is read by one of our own parsers; the parser's error becomes CLI11's.
template <class T, class Parse>
CLI::Option* Add(CLI::App* app, const std::string& name, T* out, const std::string& help, Parse parse) {
  return app->add_option_function<std::string>(
      name,
      [out, parse, name](const std::string& text) {
        auto value = parse(text);
        if (!value.ok()) throw CLI::ValidationError(name, std::string(value.status().message()));
        *out = static_cast<T>(*value);
      },
      help);
}

CLI::Option* AddDuration(CLI::App* app, const std::string& name, Nanoseconds* out, const std::string& help) {
  return Add(app, name, out, help + " [" + FormatDuration(*out) + "]",
             [](const std::string& text) { return ParseDuration(text); });
}

CLI::Option* AddBytes(CLI::App* app, const std::string& name, uint64_t* out, const std::string& help) {
  return Add(app, name, out, help, [](const std::string& text) { return ParseBytes(text); });
}

CLI::Option* AddRate(CLI::App* app, const std::string& name, double* out, const std::string& help) {
  return Add(app, name, out, help, [](const std::string& text) -> Result<double> {
    POOLMARK_ASSIGN_OR_RETURN(uint64_t bytes, ParseBytes(text));
    if (bytes == 0) return InvalidInput("rate", "is 0 bytes per second");
    return static_cast<double>(bytes);
  });
}

void AddEngine(CLI::App* app, EngineOptions* o) {
  // As with vLLM's own flags the last one counts, so that a stack's argv can be added to.
  app->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app->add_option("--host", o->host, "Address to listen on")->capture_default_str();
  app->add_option("--port", o->port, "Port; 0: the system chooses, see the line 'listening HOST:PORT'")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app->add_option_function<std::string>(
         "--role",
         [o](const std::string& role) {
           o->role = role == "prefill" ? Role::kPrefill : role == "decode" ? Role::kDecode : Role::kBoth;
         },
         "both, prefill (keeps KV for others to fetch) or decode (fetches it)")
      ->check(CLI::IsMember({"both", "prefill", "decode"}));

  app->add_option("--model,--served-model-name", o->format.model, "Name of the model")->capture_default_str();
  app->add_option("--dtype", o->format.dtype, "Part of the KV format")->capture_default_str();
  app->add_option("--kv-cache-dtype", o->format.kv_dtype, "Part of the KV format")->capture_default_str();
  app->add_option("--block-size", o->format.block_tokens, "Tokens per KV block")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app->add_option("--layers", o->format.layers, "Part of the KV format")->capture_default_str();
  app->add_option("--kv-heads", o->format.heads, "Part of the KV format")->capture_default_str();
  app->add_option("--hash-seed", o->format.hash_seed,
                  "Seed of the block hashes; engines that share use the same; default from PYTHONHASHSEED, "
                  "if a number")
      ->capture_default_str();
  app->add_option("--kv-bytes-per-token", o->kv_bytes_per_token, "Real bytes kept and moved per token")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app->add_option("--simulated-kv-bytes-per-token", o->simulated_kv_bytes_per_token,
                  "Bytes per token that the simulated bandwidths count")
      ->capture_default_str();

  app->add_option("--gpu-cache-tokens", o->gpu_cache_tokens, "Size of the GPU's KV cache in tokens")
      ->capture_default_str();
  AddBytes(app, "--host-cache", &o->host_cache_bytes, "Host tier, real memory: 64MiB; 0: none [0]");
  AddBytes(app, "--disk-cache", &o->disk_cache_bytes, "Disk tier, real files: 1GiB; 0: none [0]");
  app->add_option("--disk-dir", o->disk_directory, "Directory of the disk tier");
  app->add_option("--shared-store", o->store.redis_url,
                  "Shared store: redis://host:port[/db]; a password comes from POOLMARK_SIM_STORE_PASSWORD");
  app->add_option("--shared-dir", o->store.directory, "Shared directory instead of a store");
  app->add_option("--shared-prefix", o->store.prefix, "Prefix of the store's keys, one per run")
      ->capture_default_str();
  app->add_option("--shared-source", o->shared_source,
                  "Label under which shared hits count in prompt_tokens_cached_by_source")
      ->check(CLI::IsMember({"p2p", "external_unspecified"}))
      ->capture_default_str();

  app->add_option("--max-model-len", o->max_model_len, "Longest prompt and output together")
      ->capture_default_str();
  app->add_option("--default-max-tokens", o->default_max_tokens,
                  "Output tokens when a request names no limit")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--max-num-seqs", o->max_num_seqs, "Requests in the batch at once")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--max-num-batched-tokens", o->max_batched_tokens, "Tokens in one step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--prefill-rate", o->prefill_tokens_per_second, "Simulated GPU: prompt tokens per second")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  AddDuration(app, "--decode-step", &o->decode_step, "Simulated GPU: time of a decode step");
  AddDuration(app, "--decode-per-sequence", &o->decode_per_sequence,
              "Simulated GPU: more time per request in a step");
  AddRate(app, "--host-bandwidth", &o->host_bandwidth, "Bytes per second from the host tier [20GB]");
  AddRate(app, "--disk-bandwidth", &o->disk_bandwidth, "Bytes per second from the disk tier [3GB]");
  AddRate(app, "--remote-bandwidth", &o->remote_bandwidth,
          "Bytes per second from store or prefill engine [5GB]");
  AddDuration(app, "--remote-latency", &o->remote_latency, "Time before the first byte from there");

  app->add_option("--transfer-host", o->transfer_host, "prefill: address of the hand-over [as --host]");
  app->add_option("--transfer-port", o->transfer_port,
                  "prefill: port of the hand-over, 0: the system chooses")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  AddDuration(app, "--transfer-lease", &o->transfer_lease, "prefill: how long KV waits to be fetched");

  app->add_option("--tokens-per-event", o->tokens_per_event, "Output tokens in one stream event")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--reasoning-tokens", o->reasoning_tokens, "Chat: that many tokens of reasoning first")
      ->capture_default_str();
  app->add_option("--reasoning-field", o->reasoning_field, "Its field in the stream")
      ->check(CLI::IsMember({"reasoning", "reasoning_content"}))
      ->capture_default_str();

  auto share = CLI::Range(0.0, 1.0);
  app->add_option("--blend-chunk", o->blend_chunk,
                  "Blend mode: reuse chunks of so many tokens at any position; 0: off")
      ->capture_default_str();
  app->add_option("--blend-capacity", o->blend_capacity, "Chunks whose data are kept")->capture_default_str();
  app->add_option("--blend-stale-share", o->blend_stale_share, "Share of chunks found gone when looked up")
      ->check(share)
      ->capture_default_str();
  app->add_option("--lossy-tiers", o->lossy_tiers,
                  "Tiers that compress KV, of host, disk, remote: what comes back from them counts as moved")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CLI::IsMember({"host", "disk", "remote"}));
  app->add_option("--answers", o->answers.dataset,
                  "Data set (JSON, JSONL): answer its questions from the passages");
  app->add_option("--spoil-share", o->answers.spoil_share,
                  "Share of the answers from changed KV (moved, or back from a lossy tier) that are wrong")
      ->check(share)
      ->capture_default_str();
  app->add_option("--spoil-kinds", o->answers.spoil_kinds, "How: of wrong, wording, abstain, empty, cut")
      ->capture_default_str();
  app->add_option("--abstain-share", o->answers.abstain_share, "Share of all questions not answered")
      ->check(share)
      ->capture_default_str();
  app->add_option("--cut-share", o->answers.cut_share, "Share of all answers cut off before they are closed")
      ->check(share)
      ->capture_default_str();
  app->add_flag("--judge", o->answers.judge, "Rate answers (0, 2, 4) instead of generating text");
  app->add_option("--judge-fault", o->answers.judge_fault,
                  "The judge is wrong: lying, garbage, silent, yes-man")
      ->check(CLI::IsMember({"", "lying", "garbage", "silent", "yes-man"}));

  app->add_option("--seed", o->seed, "Of faults and spoiled answers")->capture_default_str();
  AddDuration(app, "--ready-after", &o->ready_after, "/health is 503 for so long, as while a model loads");
  AddDuration(app, "--drain", &o->drain, "SIGTERM: how long running requests may go on");
  app->add_option_function<std::vector<std::string>>(
         "--fault",
         [o](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             auto fault = ParseFault(text);
             if (!fault.ok()) throw CLI::ValidationError("--fault", std::string(fault.status().message()));
             o->faults.push_back(*fault);
           }
         },
         "A fault, kind:key=value,...; may be repeated; see docs/simulator.md")
      ->expected(1)
      ->take_all();
}

void AddRouter(CLI::App* app, RouterOptions* o) {
  app->add_option("--host", o->host, "Address to listen on")->capture_default_str();
  app->add_option("--port", o->port, "Port; 0: the system chooses, see the line 'listening HOST:PORT'")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app->add_option("--metrics-host,--prometheus-host", o->metrics_host, "Address of the router's own /metrics")
      ->capture_default_str();
  app->add_option("--metrics-port,--prometheus-port", o->metrics_port,
                  "Its port; 0: the system chooses, see the line 'metrics HOST:PORT'")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app->add_option("--policy", o->policy, "round_robin, least_loaded, cache_aware, sticky")
      ->check(CLI::IsMember({"round_robin", "least_loaded", "cache_aware", "sticky", "consistent_hash"}))
      ->capture_default_str();
  app->add_option("--worker-urls", o->workers, "URLs of the engines");
  app->add_flag(
      "--pd,--vllm-pd-disaggregation", o->disaggregated,
      "Prefill on one engine, decode on another; so also when only --prefill and --decode are given");
  app->add_option("--prefill", o->prefill, "URLs of the prefill engines");
  app->add_option("--decode", o->decode, "URLs of the decode engines");
  AddDuration(app, "--health-interval", &o->health_interval, "Between two looks at the engines");
  AddDuration(app, "--request-timeout", &o->request_timeout, "Longest time of one request");
  AddDuration(app, "--drain", &o->drain, "SIGTERM: how long running requests may go on");
}

}  // namespace

Command ReadCommandLine(int argc, char** argv) {
  Command command;
  if (const char* seed = std::getenv("PYTHONHASHSEED")) {
    char* end = nullptr;
    uint64_t value = std::strtoull(seed, &end, 10);
    if (*seed >= '0' && *seed <= '9' && *end == '\0') command.engine.format.hash_seed = value;
  }
  CLI::App app{
      "Simulated OpenAI-compatible engine and router: real caches, simulated GPU time. Never publishable."};
  app.set_version_flag("--version", "poolmark-sim " + Version() + " (simulated)");
  app.require_subcommand(1);
  CLI::App* engine = app.add_subcommand("engine", "A simulated engine");
  AddEngine(engine, &command.engine);
  CLI::App* router = app.add_subcommand("router", "A router in front of engines");
  AddRouter(router, &command.router);
  CLI::App* child = app.add_subcommand("child", "A process that only waits, for tests of tear-down");
  AddDuration(child, "--for", &command.child.lives, "How long it lives");
  child->add_flag("--ignore-sigterm", command.child.ignore_sigterm, "SIGTERM does nothing");
  child->add_flag("--listen", command.child.listen, "Holds a loopback port");
  child->add_flag("--detach", command.child.detach,
                  "Forks into a session of its own and lets the caller go on");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    int code = app.exit(error);
    command.exit_code = code == 0 ? 0 : 64;
    return command;
  }
  if (engine->parsed()) command.kind = Command::Kind::kEngine;
  command.engine.answers.seed = command.engine.seed;
  if (router->parsed()) command.kind = Command::Kind::kRouter;
  if (child->parsed()) command.kind = Command::Kind::kChild;
  if (const char* secret = std::getenv("POOLMARK_SIM_STORE_PASSWORD")) command.engine.store.password = secret;
  return command;
}

}  // namespace poolmark::sim
