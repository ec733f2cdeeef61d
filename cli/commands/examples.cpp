#include "cli/commands/examples.h"

namespace poolmark::cli {

const ExampleFile kExamples[kExampleFiles] = {
    {"pool.yaml", R"(# The machines that jobs may use. 'poolmark machines' lists those that have an agent.
version: 1
head: n0              # store, router and load run here; it needs an agent too
machines:
  # net.tcp: the address over which requests and KV travel; net.rdma: its RDMA devices, for RDMA stacks.
  # gpus: all, or how many; 0 keeps engines off the machine. disk: where disk tiers go.
  - {name: n0, net: {tcp: 10.0.0.1}, gpus: all}
  - {name: n1, net: {tcp: 10.0.0.2}, gpus: all}
  # - name: n2
  #   net: {tcp: 10.0.0.3, rdma: [mlx5_0]}
  #   disk: /nvme/poolmark
  #   public: false                                            # true: the internet reaches it
  #   bmc: {kind: redfish, address: 10.9.0.3, login: bmc}      # login: a secret of n2, whose allow.yaml names it for this address
# machines: 4         # instead of a list: the plan picks four of one GPU family
# switches: [{name: leaf1, address: 10.9.0.9, login: sw-ro}]     # noted only: this version reads no switch counters
)"},
    {"stack.yaml",
     R"(# A stack of your own; 'poolmark stacks' lists the shipped ones, which a job names without path.
# This one: vLLM on every machine with its own cache, behind vllm-router (strategy 1).
version: 1
description: vLLM, each with its own cache
strategy: local       # local | offload | shared | split | split-offload
vendor: [nvidia, amd]
engine: vllm
params: {model: null, gpus: "8"}     # null: the job must set it
kv: {path: tcp, block_tokens: 16, hash_seed: 0}
processes:
  - name: engine
    role: engine
    on: each          # every machine; head: only there
    exec: vllm        # a name that the machine's allow-list permits; or image: repository@sha256:…
    argv: [serve, "${model}", --served-model-name, model, --host, "${address}", --port, "${port.http}",
           --tensor-parallel-size, "${gpus}", --enable-prefix-caching, --block-size, "${kv.block_tokens}"]
    env: {PYTHONHASHSEED: "${kv.hash_seed}", VLLM_SERVER_DEV_MODE: "1"}
    # secrets: {HF_TOKEN: hf}          # variable: name of a secret on the machine
    gpus: "${gpus}"   # of each; the plan picks which
    ports: [http]     # chosen by the plan
    ready: {http: /health, within: 30m}
    metrics: {port: http, dialect: vllm}
    reset: {http: POST /reset_prefix_cache}
    empty: canary     # a prompt that was cached before must show no hits
  - name: router
    role: router
    on: head
    exec: vllm-router
    argv: [--host, "${address}", --port, "${port.http}", --prometheus-host, 127.0.0.1, --prometheus-port, "${port.prom}",
           --worker-urls, {each: engine, value: "${url.http}"}]
    ports: [http, prom]
    ready: {http: /health, within: 2m}
    metrics: {port: prom, dialect: vllm-router}
entry: router.http    # where the load goes
)"},
    {"job.yaml",
     R"(# One comparison: stacks under the same load. Try it with 'poolmark submit job.yaml --dry-run'.
version: 1
pool: pool.yaml
stacks:               # a file of yours with its path, or the name of a shipped stack
  - {use: stack.yaml, as: base, set: {model: /models/llama-3.1-8b}}
  - {use: vllm-lmcache-valkey, as: pooled, set: {model: /models/llama-3.1-8b, store: 64GiB}}
baseline: base        # what the others are compared with
workloads:            # each is one scenario; every level is a test point
  chat:
    shape: synthetic  # agentic | shared-prompt | synthetic | trace
    groups: 8         # shared prefixes
    prefix: 2000      # tokens
    turns: 6
    input: 200
    growth: 100
    output: 128
    think: 2s
    rate: [2, 4]      # requests a second; or concurrency: [4, 16]
  # code: {shape: agentic, file: sessions.jsonl, load_duration: 20m, warm_up: 5m, concurrency: [16]}
repeats: 3            # fewer than three valid ones make a point preliminary
starting_state: empty # or warm: one unmeasured pass first
# slo: [mlperf-llama2-70b]
preflight: {line_rate: {runs: 3, seconds: 10}}
)"},
};

}  // namespace poolmark::cli
