#include "agent/checks/line_rate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "agent/checks/byte_counters.h"
#include "agent/checks/iperf3.h"
#include "agent/checks/perftest.h"
#include "agent/facts/sockets.h"
#include "common/base/json.h"

namespace poolmark::agent {
namespace {

using std::chrono::seconds;
constexpr size_t kKeptOutput = 16u << 10;
constexpr uint32_t kLatencyIterations = 10'000;

std::string ToolName(v1::LineKind kind) {
  switch (kind) {
    case v1::LINE_KIND_IPERF3:
      return "iperf3";
    case v1::LINE_KIND_IB_WRITE_BW:
      return "ib_write_bw";
    case v1::LINE_KIND_IB_WRITE_LAT:
      return "ib_write_lat";
    default:
      return "";
  }
}

// perftest: both ends must be given the same options.
std::vector<std::string> PerftestOptions(const v1::MeasureLineRequest& request) {
  std::vector<std::string> argv = {ToolName(request.kind()), "-F", "-p", std::to_string(request.port())};
  if (!request.rdma_device().empty()) {
    const std::string& device = request.rdma_device();
    const size_t colon = device.find(':');
    argv.insert(argv.end(), {"-d", device.substr(0, colon)});
    if (colon != std::string::npos) argv.insert(argv.end(), {"-i", device.substr(colon + 1)});
  }
  if (request.kind() == v1::LINE_KIND_IB_WRITE_BW) {
    argv.insert(argv.end(), {"-D", std::to_string(std::max(request.seconds(), 1u)), "--report_gbits"});
    if (request.streams() > 1) argv.insert(argv.end(), {"-q", std::to_string(request.streams())});
  } else {
    argv.insert(argv.end(), {"-n", std::to_string(kLatencyIterations)});
  }
  return argv;
}

Command ServerCommand(const v1::MeasureLineRequest& request) {
  if (request.kind() != v1::LINE_KIND_IPERF3) return {PerftestOptions(request), {}};
  std::vector<std::string> argv = {"iperf3", "-s", "-p", std::to_string(request.port()), "-i", "0"};
  if (!request.address().empty()) argv.insert(argv.end(), {"-B", request.address()});
  return {argv, {}};
}

Command ClientCommand(const v1::MeasureLineRequest& request) {
  if (request.kind() != v1::LINE_KIND_IPERF3) {
    std::vector<std::string> argv = PerftestOptions(request);
    argv.push_back(request.address());
    return {argv, {}};
  }
  return {
      {"iperf3", "-c", request.address(), "-p", std::to_string(request.port()), "-t",
       std::to_string(std::max(request.seconds(), 1u)), "-P",
       std::to_string(std::clamp(request.streams(), 1u, 128u)), "-i", "0", "--connect-timeout", "5000", "-J"},
      {}};
}

bool Listens(const std::string& root, uint32_t port) {
  const auto sockets = ReadSockets(root);
  return std::any_of(sockets.begin(), sockets.end(),
                     [port](const Socket& socket) { return socket.listening() && socket.port == port; });
}

std::string Bounded(const std::string& text) {
  return ValidUtf8(text.substr(0, kKeptOutput));
}

}  // namespace

struct LineRate::Server {
  std::unique_ptr<Child> child;
  std::string tool;
};

LineRate::LineRate(Spawner* spawner, FactsContext facts) : spawner_(spawner), facts_(std::move(facts)) {
  facts_.spawner = spawner;
}
LineRate::~LineRate() {
  StopAll();
}

int LineRate::StopAll() {
  std::map<uint32_t, std::unique_ptr<Server>> servers;
  {
    const std::lock_guard lock(mutex_);
    servers.swap(servers_);
  }
  for (auto& [port, server] : servers) server->child->Stop(seconds(1));
  return static_cast<int>(servers.size());
}

v1::MeasureLineResponse LineRate::Measure(const v1::MeasureLineRequest& request) {
  v1::MeasureLineResponse response;
  const std::string tool = ToolName(request.kind());
  if (tool.empty()) {
    response.set_failure("this agent knows no such line measurement");
    return response;
  }
  if (request.port() == 0 || request.port() > 65535) {
    response.set_failure(absl::StrCat("port ", request.port(), " is no port"));
    return response;
  }
  if (request.stop_server()) return StopServer(request);
  if (spawner_ == nullptr || !FindExecutable(tool, facts_.root)) {
    response.mutable_tool()->set_name(tool);
    response.set_failure(absl::StrCat(tool, " is not installed on this machine: install ",
                                      tool == "iperf3" ? "iperf3" : "perftest",
                                      ", or leave the line rate out of preflight"));
    return response;
  }
  response = request.server() ? StartServer(request) : RunClient(request);
  *response.mutable_tool() = ReadTool(tool, facts_);
  return response;
}

v1::MeasureLineResponse LineRate::StartServer(const v1::MeasureLineRequest& request) {
  v1::MeasureLineResponse response;
  std::unique_ptr<Server> old;
  {
    const std::lock_guard lock(mutex_);
    const auto found = servers_.find(request.port());
    if (found != servers_.end()) {
      if (!found->second->child->Wait(Nanoseconds(0)) && found->second->tool == ToolName(request.kind()))
        return response;
      old = std::move(found->second);
      servers_.erase(found);
    }
  }
  if (old) old->child->Stop(seconds(1));
  if (Listens(facts_.root, request.port())) {
    response.set_failure(absl::StrCat("port ", request.port(), " is already held by another process"));
    return response;
  }
  const Command command = ServerCommand(request);
  auto child = spawner_->Start(command);
  if (!child.ok()) {
    response.set_failure(std::string(child.status().message()));
    return response;
  }
  const Nanoseconds deadline = RealClock().Steady() + seconds(10);
  while (!Listens(facts_.root, request.port())) {
    // waiting for the child to end doubles as the pause between two looks
    if ((*child)->Wait(std::chrono::milliseconds(20)) || RealClock().Steady() > deadline) {
      const CommandOutput output = (*child)->Stop(seconds(1));
      response.set_output(Bounded(output.out + output.err));
      response.set_failure(Describe(command, output));
      return response;
    }
  }
  auto server = std::make_unique<Server>();
  server->child = std::move(*child);
  server->tool = ToolName(request.kind());
  const std::lock_guard lock(mutex_);
  servers_[request.port()] = std::move(server);
  return response;
}

v1::MeasureLineResponse LineRate::StopServer(const v1::MeasureLineRequest& request) {
  v1::MeasureLineResponse response;
  std::unique_ptr<Server> server;
  {
    const std::lock_guard lock(mutex_);
    const auto found = servers_.find(request.port());
    if (found == servers_.end()) return response;
    server = std::move(found->second);
    servers_.erase(found);
  }
  const CommandOutput output = server->child->Stop(seconds(1));
  response.set_output(Bounded(output.out + output.err));
  return response;
}

v1::MeasureLineResponse LineRate::RunClient(const v1::MeasureLineRequest& request) {
  v1::MeasureLineResponse response;
  const Command command = ClientCommand(request);
  const auto before = SentBytes(facts_.root);
  const auto output = RunCommand(*spawner_, command, seconds(std::max(request.seconds(), 1u) + 20));
  if (!output.ok()) {
    response.set_failure(std::string(output.status().message()));
    return response;
  }
  const auto rise = Rise(before, SentBytes(facts_.root));
  response.mutable_sent_by_device()->insert(rise.begin(), rise.end());
  response.set_output(Bounded(output->out.empty() ? output->err : output->out));
  if (output->timed_out) {
    response.set_failure(Describe(command, *output));
    return response;
  }
  Status status;
  if (request.kind() == v1::LINE_KIND_IPERF3) {
    const auto report = ParseIperf3(output->out);
    status = report.status();
    if (report.ok()) {
      response.set_bits_per_second(report->received_bits_per_second);
      response.set_retransmits(report->retransmits);
      response.set_payload_bytes(report->sent_bytes);
    }
  } else if (request.kind() == v1::LINE_KIND_IB_WRITE_BW) {
    const auto report = ParseWriteBandwidth(output->out);
    status = report.status();
    if (report.ok()) {
      response.set_bits_per_second(report->average_bits_per_second);
      // By duration the iterations counted are those of its measured middle; the rate holds for all of it.
      response.set_payload_bytes(report->average_bits_per_second / 8 * std::max(request.seconds(), 1u));
    }
  } else {
    const auto report = ParseWriteLatency(output->out);
    status = report.status();
    if (report.ok()) {
      response.set_latency_p50_us(report->typical_us);
      response.set_latency_p99_us(report->p99_us);
    }
  }
  // what the tool says itself is the better reason
  if (!output->ok()) {
    response.clear_bits_per_second();
    response.clear_latency_p50_us();
    response.clear_latency_p99_us();
    response.set_failure(Describe(command, *output));
  } else if (!status.ok()) {
    response.set_failure(std::string(status.message()));
  }
  return response;
}

}  // namespace poolmark::agent
