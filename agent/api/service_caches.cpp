// Probes and cache resets of AgentService: requests from this machine to the job's own processes.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>

#include <charconv>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "agent/api/convert.h"
#include "agent/api/service.h"
#include "agent/process/redis.h"
#include "common/base/json.h"
#include "common/base/secrets.h"
#include "common/http/client.h"
#include "common/prom/parser.h"
#include "common/rpc/status.h"

namespace poolmark::agent {
namespace {

using rpc::ToGrpc;

constexpr uint32_t kDefaultBody = 1u << 20;
constexpr uint32_t kMostBody = 3u << 20;  // an answer must fit a message
constexpr Nanoseconds kDefaultTimeout = std::chrono::seconds(10);

// 127.0.0.0/8, ::1 and the machine's own addresses; names are not resolved beyond "localhost".
bool IsOwnAddress(const std::string& host) {
  if (host == "localhost" || host == "::1") return true;
  in_addr address{};  // whole: "127.example.org" is a name of somebody's
  if (inet_pton(AF_INET, host.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24) == 127) return true;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, freeifaddrs);
  for (ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    char text[NI_MAXHOST];
    socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(one->ifa_addr, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 &&
        host == text)
      return true;
  }
  return false;
}

// The number or text that a step's answer must show: exactly, or among others.
bool Shows(const std::string& body, const std::string& expect) {
  std::string trimmed = body;
  while (!trimmed.empty() && std::isspace(static_cast<unsigned char>(trimmed.back()))) trimmed.pop_back();
  return trimmed == expect;
}

}  // namespace

Status AgentService::CheckProbeTarget(ActiveRun& run, const std::string& host, uint16_t port) {
  if (!IsOwnAddress(host)) {
    return ToStatus(Error{absl::StatusCode::kFailedPrecondition, "not_allowed", "probe",
                          absl::StrCat("'", host, "' is no address of this machine"),
                          "probe from the machine that has it"});
  }
  if (run.Ports().count(port) != 0) return absl::OkStatus();
  auto allow = process::AllowList::Load(runs_->config().allow_file);
  if (allow.ok() && allow->MayProbe(port)) return absl::OkStatus();
  return ToStatus(Error{
      absl::StatusCode::kFailedPrecondition, "not_allowed", "probe",
      absl::StrCat("port ", port, " is no port of job ", run.info().job),
      absl::StrCat("for an engine that runs already add it to 'ports:' in ", runs_->config().allow_file)});
}

v1::ProbeResponse AgentService::ProbeOnce(ActiveRun& run, const v1::ProbeRequest& request) {
  v1::ProbeResponse response;
  Nanoseconds begin = RealClock().Steady();
  Nanoseconds timeout = request.timeout_ns() > 0 ? Nanoseconds(request.timeout_ns()) : kDefaultTimeout;
  uint32_t max_bytes = std::min(request.max_bytes() > 0 ? request.max_bytes() : kDefaultBody, kMostBody);
  auto fail = [&](const Status& status) {
    response.set_failure(Redacted(std::string(status.message())));
    response.set_duration_ns((RealClock().Steady() - begin).count());
    return response;
  };
  if (request.method() == "REDIS") {
    std::string host;
    uint16_t port = 0;
    std::string address(absl::StripPrefix(request.url(), "redis://"));
    address = address.substr(0, address.find('/'));
    if (Status split = process::SplitHostPort(address, &host, &port); !split.ok()) return fail(split);
    if (Status allowed = CheckProbeTarget(run, host, port); !allowed.ok()) return fail(allowed);
    auto answer = process::RedisCommand(host, port, request.body(), timeout, max_bytes);
    if (!answer.ok()) return fail(answer.status());
    response.set_status(200);
    response.set_body(*answer);
  } else {
    http::Request ask;
    auto url = http::ParseUrl(request.url());
    if (!url.ok()) return fail(url.status());
    ask.url = *url;
    if (ask.url.scheme == "unix") return fail(InvalidInput("probe", "Unix sockets are not probed"));
    if (Status allowed = CheckProbeTarget(run, ask.url.host, ask.url.port); !allowed.ok())
      return fail(allowed);
    ask.method = request.method().empty() ? "GET" : request.method();
    ask.body = request.body();
    for (const v1::Label& header : request.headers()) ask.headers.emplace_back(header.key(), header.value());
    ask.timeout = timeout;
    ask.max_body_bytes = max_bytes;
    auto answer = http::MakeClient()->Send(ask);
    if (!answer.ok()) return fail(answer.status());
    response.set_status(answer->status);
    response.set_body(std::move(answer->body));
    for (const auto& [name, value] : answer->headers) {
      v1::Label* header = response.add_headers();
      header->set_key(ValidUtf8(name));
      header->set_value(ValidUtf8(value));
    }
  }
  response.set_duration_ns((RealClock().Steady() - begin).count());
  TakeSecretsOut(&response);
  return response;
}

grpc::Status AgentService::Probe(grpc::ServerContext*, const v1::ProbeRequest* request,
                                 v1::ProbeResponse* response) {
  auto run = runs_->Find(request->lease().job_id(), request->lease().epoch());
  if (!run.ok()) return ToGrpc(run.status());
  *response = ProbeOnce(**run, *request);
  return grpc::Status::OK;
}

v1::CheckResult AgentService::RunReset(ActiveRun& run, const v1::ResetStep& step, bool read_back) {
  v1::CheckResult result;
  result.set_id(absl::StrCat(read_back ? "empty/" : "reset/", step.process()));
  result.set_expected(!step.expect().empty()     ? step.expect()
                      : step.method() == "REDIS" ? "an answer without error"
                                                 : "2xx");
  v1::ProbeRequest probe;
  bool series = step.method() == "SERIES";
  probe.set_method(series ? "GET" : step.method());
  probe.set_url(step.url());
  if (!series) probe.set_body(step.body());
  probe.set_timeout_ns(std::chrono::nanoseconds(std::chrono::seconds(30)).count());
  probe.set_max_bytes(kMostBody);
  v1::ProbeResponse answer = ProbeOnce(run, probe);
  result.set_duration_ns(answer.duration_ns());
  result.set_outcome(v1::OUTCOME_FAIL);
  std::string observed = answer.failure();
  if (answer.failure().empty()) {
    bool success = answer.status() / 100 == 2;
    observed = series || answer.body().size() > 200 ? absl::StrCat("HTTP ", answer.status())
                                                    : ValidUtf8(answer.body());
    if (series && success) {
      // The gauge that says how full the cache is, summed over its labels.
      prom::NameFilter keep = [&](std::string_view name) { return name == step.body(); };
      auto page = prom::ParseText(answer.body(), {}, keep);
      auto sum = page.ok() ? prom::Sum(*page, step.body()) : std::nullopt;
      if (!sum) {
        result.set_outcome(v1::OUTCOME_NOT_MEASURED);
        observed = page.ok() ? absl::StrCat("the page has no series ", step.body())
                             : std::string(page.status().message());
      } else {
        observed = absl::StrCat(step.body(), " = ", *sum);
        double expect = 0;
        std::from_chars(step.expect().data(), step.expect().data() + step.expect().size(), expect);
        if (*sum == expect) result.set_outcome(v1::OUTCOME_PASS);
      }
    } else if (success) {
      bool shown = step.expect().empty() || Shows(answer.body(), step.expect()) ||
                   (step.method() != "REDIS" && absl::StrContains(answer.body(), step.expect()));
      if (shown) result.set_outcome(v1::OUTCOME_PASS);
      if (observed.empty()) observed = absl::StrCat("HTTP ", answer.status());
    } else {
      observed = absl::StrCat("HTTP ", answer.status(), " ", ValidUtf8(answer.body().substr(0, 200)));
    }
  }
  result.set_observed(observed);
  result.set_evidence(
      absl::StrCat(step.method(), " ", step.url(), step.body().empty() ? "" : " ", step.body()));
  if (result.outcome() != v1::OUTCOME_PASS) {
    result.set_hint(read_back ? "the cache is not proven empty: restart the process"
                              : "check the process's log");
  }
  return result;
}

grpc::Status AgentService::ResetCaches(grpc::ServerContext*, const v1::ResetCachesRequest* request,
                                       v1::ResetCachesResponse* response) {
  auto run = runs_->Find(request->lease().job_id(), request->lease().epoch());
  if (!run.ok()) return ToGrpc(run.status());
  for (const v1::ResetStep& step : request->resets()) *response->add_results() = RunReset(**run, step, false);
  for (const v1::ResetStep& step : request->empties()) *response->add_results() = RunReset(**run, step, true);
  return grpc::Status::OK;
}

}  // namespace poolmark::agent
