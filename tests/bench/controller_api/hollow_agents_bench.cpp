// Many hollow agents on one controller: one process that enrols nobody, signs a certificate for each agent
// with the CA of a state directory, registers and beats over TLS, each on a connection of its own.
//
//   bench_controller_api STATE_DIR AGENTS SECONDS [CONTROLLER_PID]
//
// Run `poolmark-controller serve` on STATE_DIR first. Kill it and start it again meanwhile: the time from the
// first refused beat until all are registered again is printed. Each has the facts of a machine with eight
// GPUs. Prints one JSON line at the end: registration times, round trips of beats, latency of all pages of
// ListMachines with its P99 (as `poolmark machines` asks, and with all facts), false losses, RSS and CPU of
// the controller.
#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/rpc/channel.h"
#include "common/rpc/tls.h"
#include "controller/ca/ca.h"
#include "controller/ca/settings.h"
#include "poolmark/v1/controller.grpc.pb.h"

namespace poolmark {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct Shared {
  std::atomic<int> registered{0};
  std::atomic<uint64_t> beats{0}, failed{0};
  std::mutex mutex;                          // all below
  std::vector<double> round_trips;           // ms
  steady_clock::time_point first_failure{};  // of the controller of `newest`
  steady_clock::time_point restart_began{};  // first failure of the controller before `newest`
  uint64_t newest = 0;                       // the highest controller epoch that answered
  int at_newest = 0;                         // agents registered with it
  double back_after = -1;  // s, of the last restart: from the first failure until all are at `newest`
  std::map<int, uint64_t> failures;  // by status code
  // A first failure counts as the begin of a restart unless the same controller answers somebody after it.
  void Answered(bool ok, int code, uint64_t epoch) {
    std::lock_guard lock(mutex);
    if (!ok) ++failures[code];
    if (epoch != newest) return;
    if (ok) {
      first_failure = {};
    } else if (first_failure == steady_clock::time_point{}) {
      first_failure = steady_clock::now();
    }
  }
  // An agent registered with a controller of this epoch for the first time. Those that have not noticed yet
  // that the one before is gone do not count.
  void Registered(uint64_t epoch, int agents) {
    std::lock_guard lock(mutex);
    if (epoch > newest) {
      newest = epoch;
      at_newest = 0;
      // Kept apart: the first agents that are back beat well while others still come.
      restart_began = first_failure;
      first_failure = {};
    }
    if (epoch != newest || ++at_newest != agents || restart_began == steady_clock::time_point{}) return;
    back_after = std::chrono::duration<double>(steady_clock::now() - restart_began).count();
    std::fprintf(stderr, "all %d registered again after %.1f s\n", agents, back_after);
  }
};

// What an agent finds on an H200 node: 8 GPUs, 8 RDMA ports, 20 network devices, 10 drives, its tools.
const v1::Facts& BigFacts() {
  static const v1::Facts facts = [] {
    v1::Facts big;
    const std::string digest(64, 'a');
    big.set_hostname("gpu-node-0001.cluster.example");
    big.set_boot_id("6b1c7b5e-7c55-4c0f-9a4f-0f3f6f8d2c11");
    big.set_os("Ubuntu 24.04.2 LTS");
    big.set_kernel("6.8.0-60-generic");
    big.set_cpu_model("Intel(R) Xeon(R) Platinum 8480C");
    big.set_cpus(224);
    big.set_numa_nodes(2);
    big.set_memory_bytes(uint64_t{2} << 40);
    big.set_memory_available_bytes(uint64_t{1900} << 30);
    big.set_product("DGXH200");
    for (uint32_t i = 0; i < 8; ++i) {
      v1::Gpu* gpu = big.add_gpus();
      gpu->set_index(i);
      gpu->set_vendor("nvidia");
      gpu->set_model("NVIDIA H200");
      gpu->set_uuid("GPU-0f8fad5b-d9cb-469f-a165-70867728950e");
      gpu->set_memory_bytes(uint64_t{141} << 30);
      gpu->set_driver("550.127.08");
      gpu->set_numa_node(i / 4);
      v1::RdmaPort* port = big.add_rdma_ports();
      port->set_device("mlx5_" + std::to_string(i));
      port->set_port(1);
      port->set_state("ACTIVE");
      port->set_link_layer("InfiniBand");
      port->set_rate("400 Gb/sec (4X NDR)");
      port->set_netdev("ibp" + std::to_string(i) + "s0");
      port->set_active_mtu(4096);
    }
    for (uint32_t i = 0; i < 20; ++i) {
      v1::Nic* nic = big.add_nics();
      nic->set_name("enp" + std::to_string(100 + i) + "s0f0np0");
      nic->set_address("10.20." + std::to_string(i) + ".17");
      nic->add_addresses(nic->address());
      nic->add_addresses("fe80::a288:c2ff:fe1b:" + std::to_string(1000 + i));
      nic->set_mtu(9000);
      nic->set_speed_bits_per_second(400'000'000'000);
      nic->set_driver("mlx5_core");
      nic->set_operstate("up");
    }
    for (uint32_t i = 0; i < 10; ++i) {
      v1::Drive* drive = big.add_drives();
      drive->set_name("nvme" + std::to_string(i) + "n1");
      drive->set_model("SAMSUNG MZWLJ3T8HBLS-00007");
      drive->set_size_bytes(3'840'755'982'336);
    }
    for (const char* name : {"iperf3", "ib_write_bw", "ib_write_lat", "ibv_devinfo", "nvidia-smi",
                             "redis-server", "docker", "chronyc", "ping", "ip", "perf", "ipmitool"}) {
      v1::Tool* tool = big.add_tools();
      tool->set_name(name);
      tool->set_version("3.16 (cJSON 1.7.15)");
      tool->set_sha256(digest);
      tool->set_path(std::string("/usr/bin/") + name);
      big.add_executables(name);
    }
    for (uint32_t port = 0; port < 60; ++port) big.add_used_ports(30000 + port);
    big.set_work_dir("/var/lib/poolmark/work");
    big.mutable_clock()->set_source("chrony");
    big.mutable_clock()->set_synchronised(true);
    big.mutable_clock()->set_bound_ns(120'000);
    return big;
  }();
  return facts;
}

// All pages. The number of machines, and of those that are lost; -1 when a call failed.
int ListAll(v1::ControllerService::Stub* stub, bool with_facts, int* lost) {
  v1::ListMachinesRequest request;
  request.set_with_facts(with_facts);
  int machines = 0;
  do {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    v1::ListMachinesResponse response;
    if (!stub->ListMachines(&context, request, &response).ok()) return -1;
    machines += response.machines_size();
    for (const v1::Machine& machine : response.machines()) {
      if (machine.state() == v1::MACHINE_STATE_LOST) ++*lost;
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return machines;
}

class Hollow {
 public:
  Hollow(std::string name, std::shared_ptr<grpc::Channel> channel, Shared* shared, int agents)
      : name_(std::move(name)),
        shared_(*shared),
        agents_(agents),
        stub_(v1::AgentRegistryService::NewStub(channel)) {}

  // One call at a time; the next is due when the last has ended and its pause is over.
  bool Due(steady_clock::time_point now) const { return !busy_ && now >= next_; }
  void Go() {
    busy_ = true;
    context_ = std::make_unique<grpc::ClientContext>();
    context_->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    began_ = steady_clock::now();
    if (!is_registered_) return Register();
    beat_.set_machine(name_);
    beat_.set_boot_id("boot");
    beat_.set_controller_epoch(epoch_);
    beat_.set_sent_wall_ns(RealClock().Wall().count());
    beat_.set_sent_boot_ns(RealClock().Boot().count());
    stub_->async()->Heartbeat(context_.get(), &beat_, &beat_answer_, [this](grpc::Status status) {
      if (status.ok()) {
        ++shared_.beats;
        std::lock_guard lock(shared_.mutex);
        shared_.round_trips.push_back(Milliseconds());
      }
      End(status, status.ok() && beat_answer_.register_again());
    });
  }

 private:
  void Register() {
    register_.set_machine(name_);
    register_.set_address("127.0.0.1:1");
    register_.set_boot_id("boot");
    if (register_.api_versions_size() == 0) register_.add_api_versions("v1");
    *register_.mutable_facts() = BigFacts();
    stub_->async()->Register(context_.get(), &register_, &answer_, [this](grpc::Status status) {
      if (status.ok()) {
        if (answer_.controller_epoch() != epoch_) shared_.Registered(answer_.controller_epoch(), agents_);
        epoch_ = answer_.controller_epoch();
        is_registered_ = true;
        ++shared_.registered;
      }
      End(status, false);
    });
  }
  double Milliseconds() const {
    return std::chrono::duration<double, std::milli>(steady_clock::now() - began_).count();
  }
  void End(const grpc::Status& status, bool again) {
    // As an agent does: a beat that failed is sent again; only the controller's word means registering again.
    milliseconds pause(2000);
    if (again && is_registered_) {
      is_registered_ = false;
      --shared_.registered;
    }
    if (again) pause = milliseconds(0);
    if (!status.ok()) {
      ++shared_.failed;
      pause = milliseconds(500 + std::rand() % 1500);
    }
    if (!again) shared_.Answered(status.ok(), static_cast<int>(status.error_code()), epoch_);
    next_ = steady_clock::now() + pause + milliseconds(std::rand() % 400 - 200);
    busy_ = false;
  }

  const std::string name_;
  Shared& shared_;
  const int agents_;
  std::unique_ptr<v1::AgentRegistryService::Stub> stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  v1::RegisterRequest register_;
  v1::RegisterResponse answer_;
  v1::HeartbeatRequest beat_;
  v1::HeartbeatResponse beat_answer_;
  uint64_t epoch_ = 0;
  bool is_registered_ = false;
  std::atomic<bool> busy_{false};
  steady_clock::time_point began_{}, next_{};
};

double Share(std::vector<double>* values, double share) {
  if (values->empty()) return 0;
  std::sort(values->begin(), values->end());
  return (*values)[static_cast<size_t>(share * static_cast<double>(values->size() - 1))];
}

std::string ProcessFigures(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/status");
  std::string line, rss = "null";
  while (std::getline(file, line)) {
    if (line.rfind("VmRSS:", 0) == 0) rss = std::to_string(std::atoll(line.c_str() + 6) / 1024);
  }
  return rss;
}

int Run(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "bench_controller_api STATE_DIR AGENTS SECONDS [CONTROLLER_PID]\n");
    return 2;
  }
  const std::string state = argv[1];
  const int agents = std::atoi(argv[2]), seconds = std::atoi(argv[3]);
  rpc::PrepareGrpc();
  auto authority = controller::Authority::Open(controller::AuthorityDir(state), RealClock());
  auto settings = controller::LoadSettings(state);
  if (!authority.ok() || !settings.ok()) {
    std::fprintf(stderr, "%s is no state directory\n", state.c_str());
    return 1;
  }
  auto channel = [&](rpc::Role role, const std::string& name) {
    auto identity = (*authority)->Issue(role, name, std::chrono::hours(2));
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = identity->ca_pem;
    options.pem_private_key = identity->key_pem;
    options.pem_cert_chain = identity->certificate_pem;
    return rpc::MakeChannel(settings->listen, rpc::ServerName(rpc::Role::kController, ""),
                            grpc::SslCredentials(options));
  };
  Shared shared;
  std::vector<std::unique_ptr<Hollow>> hollow;
  for (int i = 0; i < agents; ++i) {
    char name[16];
    std::snprintf(name, sizeof name, "h%04d", i);
    hollow.push_back(std::make_unique<Hollow>(name, channel(rpc::Role::kAgent, name), &shared, agents));
  }
  std::fprintf(stderr, "%d certificates signed\n", agents);
  const auto begin = steady_clock::now();
  double all_after = -1;
  std::atomic<bool> stop{false};
  std::vector<double> lists, whole_lists;
  int worst_lost = 0, short_lists = 0;
  std::thread watcher([&] {
    auto stub = v1::ControllerService::NewStub(channel(rpc::Role::kViewer, "bench"));
    for (int turn = 0; !stop; ++turn) {
      const bool with_facts = turn % 4 == 3;
      const auto from = steady_clock::now();
      int lost = 0;
      const int listed = ListAll(stub.get(), with_facts, &lost);
      if (listed >= 0 && shared.registered == agents) {
        (with_facts ? whole_lists : lists)
            .push_back(std::chrono::duration<double, std::milli>(steady_clock::now() - from).count());
        worst_lost = std::max(worst_lost, lost);
        if (listed != agents) ++short_lists;
      }
      std::this_thread::sleep_for(milliseconds(100));
    }
  });
  while (steady_clock::now() - begin < std::chrono::seconds(seconds)) {
    const auto now = steady_clock::now();
    for (auto& agent : hollow) {
      if (agent->Due(now)) agent->Go();
    }
    if (shared.registered == agents) {
      const double since = std::chrono::duration<double>(now - begin).count();
      if (all_after < 0) all_after = since;
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  stop = true;
  watcher.join();
  std::vector<double> trips;
  {
    std::lock_guard lock(shared.mutex);
    trips = shared.round_trips;
    for (const auto& [code, count] : shared.failures)
      std::fprintf(stderr, "%llu calls failed with status %d\n", static_cast<unsigned long long>(count),
                   code);
  }
  std::printf(
      "{\"agents\":%d,\"registered\":%d,\"all_registered_s\":%.1f,\"registered_again_s\":%.1f,\"beats\":%llu,"
      "\"failed_calls\":%llu,"
      "\"beat_ms\":{\"p50\":%.2f,\"p99\":%.2f,\"max\":%.2f},\"list_machines_ms\":{\"n\":%zu,\"p50\":%.2f,"
      "\"p99\":%.2f},\"list_facts_ms\":{\"n\":%zu,\"p50\":%.2f,\"p99\":%.2f},\"facts_bytes\":%zu,"
      "\"short_lists\":%d,\"lost\":%d,"
      "\"controller_rss_mb\":%s}\n",
      agents, shared.registered.load(), all_after, shared.back_after,
      static_cast<unsigned long long>(shared.beats), static_cast<unsigned long long>(shared.failed),
      Share(&trips, 0.5), Share(&trips, 0.99), Share(&trips, 1), lists.size(), Share(&lists, 0.5),
      Share(&lists, 0.99), whole_lists.size(), Share(&whole_lists, 0.5), Share(&whole_lists, 0.99),
      BigFacts().ByteSizeLong(), short_lists, worst_lost,
      argc > 4 ? ProcessFigures(argv[4]).c_str() : "null");
  std::fflush(stdout);
  // Calls under way still hold their objects.
  std::_Exit(shared.registered == agents && worst_lost == 0 && short_lists == 0 ? 0 : 1);
}

}  // namespace
}  // namespace poolmark

int main(int argc, char** argv) {
  return poolmark::Run(argc, argv);
}
