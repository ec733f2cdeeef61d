#include "controller/web/web.h"

#include <sys/statvfs.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace poolmark::controller {
namespace {

constexpr double kLeastFreeDisk = 0.05;

// "127.0.0.1:7445", "localhost", "[::1]:80".
bool IsLoopbackName(const std::string& host) {
  if (host.rfind("[::1]", 0) == 0) return host.size() == 5 || host[5] == ':';
  const std::string name = host.substr(0, host.rfind(':'));
  if (name == "localhost") return true;
  return name.rfind("127.", 0) == 0 && name.find_first_not_of("0123456789.") == std::string::npos;
}

}  // namespace

Web::Web(const JobManager* jobs, std::function<void(ControllerFigures*)> extra)
    : jobs_(jobs), extra_(std::move(extra)) {
  start_time_ = static_cast<double>(jobs->environment().clock->Wall().count()) / 1e9;
}

Result<std::unique_ptr<Web>> Web::Start(const std::string& address, const JobManager* jobs,
                                        std::function<void(ControllerFigures*)> extra) {
  const size_t colon = address.rfind(':');
  unsigned port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535) {
    return InvalidInput("web address", absl::StrCat("'", address, "' is no host:port"),
                        "for example 127.0.0.1:7445");
  }
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  if (host.rfind("127.", 0) != 0 && host != "::1" && host != "localhost") {
    return InvalidInput(
        "web address",
        absl::StrCat("'", address, "' is not on the loopback interface: these pages know no users"),
        "use 127.0.0.1 and reach it through a tunnel or a proxy of yours");
  }
  std::unique_ptr<Web> web(new Web(jobs, std::move(extra)));
  http::ServerOptions options;
  options.address = host == "localhost" ? "127.0.0.1" : host;
  options.port = static_cast<uint16_t>(port);
  options.max_body_bytes = 4096;
  options.max_connections = 64;
  POOLMARK_ASSIGN_OR_RETURN(
      web->server_,
      http::Server::Start(options, [w = web.get()](const http::ServerRequest& request,
                                                   std::shared_ptr<http::ResponseWriter> response) {
        w->Answer(request, response.get());
      }));
  return web;
}

std::string Web::NotReady(double* commit_seconds) {
  const Environment& environment = jobs_->environment();
  const Nanoseconds before = environment.clock->Steady();
  Status writable = environment.store->Probe();
  *commit_seconds = static_cast<double>((environment.clock->Steady() - before).count()) / 1e9;
  if (!writable.ok()) return absl::StrCat("the store cannot be written: ", std::string(writable.message()));
  struct statvfs disk {};
  if (statvfs(environment.store->directory().c_str(), &disk) == 0 && disk.f_blocks > 0 &&
      static_cast<double>(disk.f_bavail) / static_cast<double>(disk.f_blocks) < kLeastFreeDisk) {
    return "less than 5 % of the state directory's disk is free";
  }
  if (environment.store->recovered())
    return absl::StrCat("the store was corrupt and began anew; the old file is ",
                        *environment.store->recovered());
  return "";
}

ControllerFigures Web::Figures() {
  const Environment& environment = jobs_->environment();
  ControllerFigures figures;
  for (int state = v1::JobState_MIN + 1; state <= v1::JobState_MAX; ++state)
    figures.jobs_by_state[StateName(static_cast<v1::JobState>(state))] = 0;
  if (auto counts = environment.store->CountByState(); counts.ok()) {
    for (const auto& [state, count] : *counts) figures.jobs_by_state[state] = count;
  }
  for (const v1::Machine& machine : environment.registry->List(false)) {
    ++figures.machines_by_state[v1::MachineState_Name(machine.state()).substr(sizeof("MACHINE_STATE_") - 1)];
    figures.oldest_heartbeat_seconds = std::max(figures.oldest_heartbeat_seconds,
                                                static_cast<double>(machine.last_heartbeat_age_ns()) / 1e9);
  }
  figures.running_jobs = jobs_->running();
  figures.machines_lost_total = environment.registry->lost_total();
  (void)NotReady(&figures.store_commit_seconds);
  figures.start_time_seconds = start_time_;
  ReadProcess(&figures);
  if (extra_) extra_(&figures);
  return figures;
}

void Web::Answer(const http::ServerRequest& request, http::ResponseWriter* response) {
  const http::Headers headers = {
      {"X-Content-Type-Options", "nosniff"},
      {"Cache-Control", "no-store"},
      {"Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"}};
  const char* text = "text/plain; charset=utf-8";
  // A page of somebody else's that the operator's browser shows must not read these under a name of its own
  // (DNS rebinding).
  if (!IsLoopbackName(request.header("host").value_or("localhost")))
    return response->Send(421, text, "ask for 127.0.0.1, [::1] or localhost\n", headers);
  if (request.method != "GET" && request.method != "HEAD")
    return response->Send(405, text, "only GET\n", headers);
  if (request.path == "/healthz") return response->Send(200, text, "ok\n", headers);
  if (request.path == "/readyz") {
    double seconds = 0;
    const std::string why = NotReady(&seconds);
    return response->Send(why.empty() ? 200 : 503, text, why.empty() ? "ready\n" : why + "\n", headers);
  }
  if (request.path == "/metrics")
    return response->Send(200, "text/plain; version=0.0.4; charset=utf-8", MetricsText(Figures()), headers);
  if (request.path == "/") {
    auto page = jobs_->environment().store->List({}, 0, 50);
    return response->Send(
        200, "text/html; charset=utf-8",
        StatusPage(page.ok() ? page->jobs : std::vector<v1::Job>(),
                   jobs_->environment().registry->List(false), jobs_->environment().clock->Wall()),
        headers);
  }
  response->Send(404, text, "no such page: / /metrics /healthz /readyz\n", headers);
}

}  // namespace poolmark::controller
