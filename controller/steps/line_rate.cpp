#include "controller/steps/line_rate.h"

#include <algorithm>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/units.h"
#include "controller/stacks/rdma.h"

namespace poolmark::controller {
namespace {

// One end's call; an answer with `failure` is an error here.
Result<v1::MeasureLineResponse> Call(JobRun* run, const std::string& machine, v1::MeasureLineRequest request,
                                     const std::string& what) {
  POOLMARK_ASSIGN_OR_RETURN(AgentLinkPtr link, run->registry->Link(machine));
  request.set_request_id(
      run->RequestId(machine, absl::StrCat("line/", what, "/", run->clock->Steady().count())));
  *request.mutable_lease() = run->Lease(machine);
  POOLMARK_ASSIGN_OR_RETURN(v1::MeasureLineResponse response, link->MeasureLine(request, run->stop));
  if (!response.failure().empty()) return Unavailable(machine, response.failure());
  return response;
}

// A server on `link.to` for as long as this lives.
class LineServer {
 public:
  LineServer(JobRun* run, const KvLink& link, v1::MeasureLineRequest request)
      : run_(run), machine_(link.to), request_(std::move(request)) {
    request_.set_server(true);
  }
  ~LineServer() {
    if (!started_) return;
    request_.set_stop_server(true);
    (void)Call(run_, machine_, request_, "stop");
  }
  Status Start() {
    auto response = Call(run_, machine_, request_, "server");
    started_ = true;  // even on an error: it may have come up
    return response.status();
  }

 private:
  JobRun* run_;
  std::string machine_;
  v1::MeasureLineRequest request_;
  bool started_ = false;
};

// Those that the pool file names, or the plan for it, as the tools take them.
std::vector<std::string> DevicesOf(const JobRun& run, const std::string& machine) {
  for (const spec::MachineSpec& spec : run.job->pool.machines) {
    if (spec.name != machine) continue;
    auto facts = run.facts.find(machine);
    return PoolDevices(spec.rdma_devices, facts == run.facts.end() ? v1::Facts() : facts->second);
  }
  return {};
}

v1::MeasureLineRequest Base(const JobRun& run, const KvLink& link, v1::LineKind kind) {
  v1::MeasureLineRequest request;
  request.set_kind(kind);
  request.set_address(run.plan->addresses.at(link.to));
  request.set_port(run.plan->line_ports.front());
  request.set_seconds(static_cast<uint32_t>(run.job->line_rate_seconds));
  return request;
}

std::map<std::string, double> RatiosOf(const v1::MeasureLineResponse& answer) {
  return results::Ratios({answer.sent_by_device().begin(), answer.sent_by_device().end()},
                         answer.payload_bytes());
}

// iperf3 processes at each end, and connections between each two of them. Before 3.16 all connections of one
// process share a thread, so that more processes carry what more connections cannot.
struct Streams {
  uint32_t servers = 1;
  uint32_t each = 4;
};
constexpr uint32_t kMostStreams = 128;
constexpr double kHelps = 1.05;  // less is noise
constexpr int kTrySeconds = 3;

struct TcpRun {
  double bits_per_second = 0;            // received, of all servers together
  std::map<std::string, double> ratios;  // of a single server: with several, each sees the others' bytes
  v1::Tool tool;
};

Result<TcpRun> RunTcp(JobRun* run, const KvLink& link, Streams streams, int seconds) {
  std::vector<v1::MeasureLineRequest> requests;
  std::vector<std::unique_ptr<LineServer>> servers;
  for (uint32_t i = 0; i < streams.servers; ++i) {
    requests.push_back(Base(*run, link, v1::LINE_KIND_IPERF3));
    requests[i].set_port(run->plan->line_ports.at(i));
    requests[i].set_streams(streams.each);
    requests[i].set_seconds(static_cast<uint32_t>(seconds));
    servers.push_back(std::make_unique<LineServer>(run, link, requests[i]));
    POOLMARK_RETURN_IF_ERROR(servers[i]->Start());
  }
  std::vector<Result<v1::MeasureLineResponse>> answers(streams.servers, absl::UnknownError("no answer"));
  {
    std::vector<std::jthread> clients;
    for (uint32_t i = 0; i < streams.servers; ++i) {
      clients.emplace_back(
          [&, i] { answers[i] = Call(run, link.from, requests[i], absl::StrCat("client/", i)); });
    }
  }
  TcpRun sum;
  for (const auto& answer : answers) {
    POOLMARK_RETURN_IF_ERROR(answer.status());
    if (!answer->has_bits_per_second()) return Unavailable(link.from, "iperf3 gave no received rate");
    sum.bits_per_second += answer->bits_per_second();
    sum.tool = answer->tool();
  }
  if (streams.servers == 1) sum.ratios = RatiosOf(*answers[0]);
  return sum;
}

// As many as still help: twice as many while that gains, first of the servers, then of the connections to
// each. One run is a quick look, and takes what it begins with. `ratios`: of the first try.
Result<Streams> FindStreams(JobRun* run, const KvLink& link, std::map<std::string, double>* ratios) {
  Streams best{1, std::max(1u, run->plan->line_streams)};
  if (run->job->line_rate_runs < 2) return best;
  const int seconds = std::min(run->job->line_rate_seconds, kTrySeconds);
  POOLMARK_ASSIGN_OR_RETURN(TcpRun first, RunTcp(run, link, best, seconds));
  *ratios = first.ratios;
  double most = first.bits_per_second;
  for (const bool servers : {true, false}) {
    for (;;) {
      Streams more = best;
      (servers ? more.servers : more.each) *= 2;
      if (more.servers > run->plan->line_ports.size() || more.servers * more.each > kMostStreams) break;
      POOLMARK_ASSIGN_OR_RETURN(TcpRun tried, RunTcp(run, link, more, seconds));
      if (tried.bits_per_second <= most * kHelps) break;
      most = tried.bits_per_second;
      best = more;
    }
  }
  return best;
}

Status MeasureTcp(JobRun* run, LineRate* rate) {
  POOLMARK_ASSIGN_OR_RETURN(Streams streams, FindStreams(run, rate->link, &rate->tcp_ratios));
  rate->servers = streams.servers;
  rate->streams = streams.servers * streams.each;
  for (int i = 0; i < run->job->line_rate_runs; ++i) {
    POOLMARK_ASSIGN_OR_RETURN(TcpRun one, RunTcp(run, rate->link, streams, run->job->line_rate_seconds));
    rate->runs.push_back(one.bits_per_second);
    rate->tool = one.tool;
    if (one.bits_per_second <= rate->bits_per_second.value_or(0)) continue;
    rate->bits_per_second = one.bits_per_second;
    if (!one.ratios.empty()) rate->tcp_ratios = one.ratios;
  }
  return absl::OkStatus();
}

// One card after another, each against the same one of the other machine: two at once would share what is
// behind them, and one card says nothing of the others. Their sum is what the pair has.
Status MeasureRdma(JobRun* run, LineRate* rate) {
  auto from = DevicesOf(*run, rate->link.from), to = DevicesOf(*run, rate->link.to);
  rate->rdma_cards = static_cast<uint32_t>(std::max<size_t>(1, std::min(from.size(), to.size())));
  from.resize(rate->rdma_cards);  // without a name the tool takes the first that it finds
  to.resize(rate->rdma_cards);
  for (uint32_t card = 0; card < rate->rdma_cards; ++card) {
    for (v1::LineKind kind : {v1::LINE_KIND_IB_WRITE_BW, v1::LINE_KIND_IB_WRITE_LAT}) {
      if (kind == v1::LINE_KIND_IB_WRITE_LAT && card > 0) continue;
      v1::MeasureLineRequest request = Base(*run, rate->link, kind);
      request.set_rdma_device(to[card]);
      LineServer server(run, rate->link, request);
      POOLMARK_RETURN_IF_ERROR(server.Start());
      request.set_rdma_device(from[card]);
      POOLMARK_ASSIGN_OR_RETURN(auto answer, Call(run, rate->link.from, request, "client"));
      rate->rdma_tool = answer.tool();
      if (answer.has_bits_per_second()) {
        rate->rdma_bits_per_second = rate->rdma_bits_per_second.value_or(0) + answer.bits_per_second();
        // Each run moves the counters of its own card.
        for (const auto& [device, ratio] : RatiosOf(answer)) {
          double& most = rate->rdma_ratios[device];
          most = std::max(most, ratio);
        }
      }
      if (answer.has_latency_p50_us()) rate->rdma_latency_p50_us = answer.latency_p50_us();
      if (answer.has_latency_p99_us()) rate->rdma_latency_p99_us = answer.latency_p99_us();
    }
  }
  return absl::OkStatus();
}

// "iperf3 3.12: 14.8 Gbit/s, 14.6 Gbit/s with 4 streams; ib_write_lat 2.1 us (P50), 4.0 us (P99)": every run,
// not only the best.
std::string EvidenceOf(const LineRate& rate) {
  std::vector<std::string> runs;
  for (double bits : rate.runs) runs.push_back(FormatBitRate(bits));
  std::string text =
      absl::StrCat(rate.tool.name().empty() ? "iperf3" : rate.tool.name(), " ", rate.tool.version(), ": ",
                   runs.empty() ? "no run ended" : absl::StrJoin(runs, ", "));
  if (rate.streams > 1) absl::StrAppend(&text, " with ", rate.streams, " streams");
  if (rate.servers > 1) absl::StrAppend(&text, " to ", rate.servers, " servers");
  if (rate.runs.size() == 1) absl::StrAppend(&text, " (one run: not looked whether more would help)");
  if (rate.rdma_bits_per_second)
    absl::StrAppend(&text, "; ", rate.rdma_tool.name(), " ", rate.rdma_tool.version(), ": ",
                    FormatBitRate(*rate.rdma_bits_per_second));
  if (rate.rdma_cards > 1) absl::StrAppend(&text, " over ", rate.rdma_cards, " cards");
  if (rate.rdma_latency_p50_us && rate.rdma_latency_p99_us)
    absl::StrAppend(&text, absl::StrFormat("; latency %.2f us (P50), %.2f us (P99)",
                                           *rate.rdma_latency_p50_us, *rate.rdma_latency_p99_us));
  return text;
}

}  // namespace

std::vector<LineRate> MeasureLineRates(JobRun* run, std::vector<v1::CheckResult>* checks) {
  std::vector<LineRate> rates;
  for (const KvLink& link : run->plan->line_pairs) {
    if (run->stop.stop_requested()) break;
    LineRate rate;
    rate.link = link;
    Status status = MeasureTcp(run, &rate);
    if (status.ok() && link.path == "rdma") status = MeasureRdma(run, &rate);
    v1::CheckResult check;
    check.set_id("line_rate");
    check.set_machine(link.from);
    check.set_expected(absl::StrCat("the rate to ", link.to, " can be measured"));
    if (status.ok()) {
      const double bits =
          link.path == "rdma" ? rate.rdma_bits_per_second.value_or(0) : rate.bits_per_second.value_or(0);
      run->line_rate_bits[{link.from, link.to}] = bits;
      results::PathCalibration& calibration = run->calibrations[link.from];
      calibration.tcp = rate.tcp_ratios;
      if (!rate.rdma_ratios.empty()) calibration.rdma = rate.rdma_ratios;
      check.set_outcome(v1::OUTCOME_PASS);
      check.set_observed(absl::StrCat(link.from, " -> ", link.to, ": ", FormatBitRate(bits), " over ",
                                      link.path, ", best of ", rate.runs.size(), " run(s) of ",
                                      run->job->line_rate_seconds, " s"));
    } else {
      rate.failure = std::string(status.message());
      check.set_outcome(v1::OUTCOME_FAIL);
      check.set_observed(absl::StrCat(link.from, " -> ", link.to, ": ", rate.failure));
      check.set_hint(
          "see that the tool is installed on both machines and that the port is open between them, or set "
          "preflight.line_rate: off");
    }
    check.set_evidence(EvidenceOf(rate));
    run->Check(check);
    checks->push_back(check);
    rates.push_back(std::move(rate));
  }
  return rates;
}

}  // namespace poolmark::controller
