// What sampling costs an agent: three engine pages of a real size once a second, and the machine itself.
// The pages are served by a child, so that the figure is the sampler's alone. Prints one line of JSON.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "agent/telemetry/sampler.h"
#include "common/http/server.h"

namespace {

using namespace poolmark;

double CpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A page as large as vLLM's (some 57 KB): the series that are kept, and histograms that are not.
std::string MakePage(int round) {
  std::string page;
  const std::string labels = "{engine=\"0\",model_name=\"meta-llama/Llama-3.3-70B-Instruct\"";
  for (const char* source : {"local_compute", "local_cache_hit", "external_kv_transfer"}) {
    page += "vllm:prompt_tokens_by_source_total" + labels + ",source=\"" + source + "\"} " +
            std::to_string(1000 * round) + "\n";
  }
  for (const char* name : {"prompt_tokens_total", "prompt_tokens_cached_total", "generation_tokens_total",
                           "num_requests_running", "num_requests_waiting", "kv_cache_usage_perc",
                           "prefix_cache_hits_total", "prefix_cache_queries_total"}) {
    page += std::string("vllm:") + name + labels + "} " + std::to_string(3000 * round) + "\n";
  }
  for (int histogram = 0; page.size() < 57'000; ++histogram) {
    for (int bucket = 0; bucket < 20; ++bucket) {
      page += "vllm:histogram_" + std::to_string(histogram) + "_seconds_bucket" + labels + ",le=\"" +
              std::to_string(bucket) + ".0\"} " + std::to_string(round) + "\n";
    }
  }
  return page;
}

}  // namespace

int main(int argc, char** argv) {
  const int seconds = argc > 1 ? std::atoi(argv[1]) : 30;
  const std::string catalogue_directory = argc > 2 ? argv[2] : "deploy/catalogue";
  int port_pipe[2];
  if (::pipe(port_pipe) != 0) return 70;
  const pid_t server_pid = ::fork();
  if (server_pid == 0) {
    int round = 0;
    auto server = http::Server::Start(
        {}, [&round](const http::ServerRequest&, std::shared_ptr<http::ResponseWriter> writer) {
          writer->Send(200, "text/plain", MakePage(++round));
        });
    if (!server.ok()) ::_exit(70);
    const uint16_t port = (*server)->port();
    if (::write(port_pipe[1], &port, sizeof port) != sizeof port) ::_exit(70);
    for (;;) ::pause();
  }
  uint16_t port = 0;
  if (::read(port_pipe[0], &port, sizeof port) != sizeof port) return 70;

  const auto catalogue = prom::Catalogue::Load(catalogue_directory);
  if (!catalogue.ok()) {
    std::fprintf(stderr, "%s\n", std::string(catalogue.status().message()).c_str());
    return 1;
  }
  const auto client = http::MakeClient();
  const auto spawner = agent::MakeSpawner();
  agent::SamplerOptions options;
  options.catalogue = &*catalogue;
  options.client = client.get();
  options.spawner = spawner.get();
  options.engines = [] { return std::vector<agent::EngineProcess>{{"engine", ::getppid()}}; };
  for (const char* source : {"engine-a", "engine-b", "engine-c"}) {
    v1::ScrapeTarget target;
    target.set_source(source);
    target.set_dialect("vllm");
    target.set_url("http://127.0.0.1:" + std::to_string(port) + "/metrics");
    options.targets.push_back(target);
  }
  auto sampler = agent::Sampler::Start(options);
  if (!sampler.ok()) return 1;
  const double cpu_before = CpuSeconds();
  const Nanoseconds start = RealClock().Steady();
  uint64_t sequence = 0;
  size_t rounds = 0, bytes = 0;
  while (RealClock().Steady() - start < std::chrono::seconds(seconds)) {
    const auto batch = (*sampler)->Next(sequence, std::chrono::seconds(1));
    if (!batch) continue;
    sequence = batch->sequence();
    rounds += static_cast<size_t>(batch->rounds_size());
    bytes += batch->ByteSizeLong();
  }
  const double cpu = CpuSeconds() - cpu_before;
  const double wall = static_cast<double>((RealClock().Steady() - start).count()) / 1e9;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"seconds\": %.1f, \"rounds\": %zu, \"cpu_percent_of_a_core\": %.3f, \"bytes_per_second\": %.0f, "
      "\"max_rss_mib\": %.1f}\n",
      wall, rounds, 100 * cpu / wall, static_cast<double>(bytes) / wall,
      static_cast<double>(usage.ru_maxrss) / 1024);
  sampler->reset();
  ::kill(server_pid, SIGKILL);
  ::waitpid(server_pid, nullptr, 0);
  return 100 * cpu / wall < 1.0 ? 0 : 1;
}
