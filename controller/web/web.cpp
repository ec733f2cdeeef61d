#include "controller/web/web.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/files.h"
#include "common/base/time_format.h"
#include "common/results/layout.h"
#include "controller/jobs/job_table.h"
#include "controller/runner/results_writer.h"
#include "controller/web/pages.h"
#include "controller/web/views.h"

namespace poolmark::controller {
namespace {

constexpr double kLeastFreeDisk = 0.05;
// It is renewed long before: by then every agent and user is about to be cut off.
constexpr Nanoseconds kLeastCertificate = std::chrono::hours(24);
constexpr uint32_t kJobsOfPage = 50;
constexpr uint32_t kEventsOfAnswer = 500;
constexpr size_t kMaxReportBytes = 256u << 20;

constexpr char kText[] = "text/plain; charset=utf-8";
constexpr char kHtml[] = "text/html; charset=utf-8";
constexpr char kJson[] = "application/json; charset=utf-8";

// Scripts, styles and answers from this origin alone; nothing may frame or be sent from a page.
http::Headers PageHeaders() {
  return {
      {"X-Content-Type-Options", "nosniff"},
      {"Cache-Control", "no-store"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri "
       "'none'; form-action 'none'; frame-ancestors 'none'"}};
}

// A report carries its style and scripts in itself. The sandbox gives it an origin of its own, so that
// nothing in it can read these pages.
http::Headers ReportHeaders() {
  http::Headers headers = PageHeaders();
  headers.back().second =
      "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri "
      "'none'; "
      "form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts";
  return headers;
}

// "127.0.0.1:7445", "localhost", "[::1]:80".
bool IsLoopbackName(const std::string& host) {
  if (host.rfind("[::1]", 0) == 0) return host.size() == 5 || host[5] == ':';
  const std::string name = host.substr(0, host.rfind(':'));
  if (name == "localhost") return true;
  return name.rfind("127.", 0) == 0 && name.find_first_not_of("0123456789.") == std::string::npos;
}

// A whole number of the query, 0 without one.
uint64_t Number(const std::string& query, const std::string& key) {
  for (const absl::string_view pair : absl::StrSplit(query, '&')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(pair, absl::MaxSplits('=', 1));
    uint64_t value = 0;
    if (parts.first == key && absl::SimpleAtoi(parts.second, &value)) return value;
  }
  return 0;
}

void SendJson(Result<Json> json, http::ResponseWriter* response) {
  if (!json.ok()) {
    const int status = json.status().code() == absl::StatusCode::kNotFound          ? 404
                       : json.status().code() == absl::StatusCode::kInvalidArgument ? 400
                                                                                    : 500;
    json = Json{{"error", ValidUtf8(std::string(json.status().message()))}};
    return response->Send(status, kJson, DumpJson(*json).value_or("{}") + "\n", PageHeaders());
  }
  auto text = DumpJson(*json);
  if (!text.ok())
    return response->Send(500, kJson, "{\"error\": \"the answer is no JSON\"}\n", PageHeaders());
  response->Send(200, kJson, *text + "\n", PageHeaders());
}

}  // namespace

Web::Web(const JobManager* jobs, std::function<void(ControllerFigures*)> extra)
    : jobs_(jobs), extra_(std::move(extra)), ticks_(jobs->environment().hub, jobs->environment().clock) {
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
  ControllerFigures figures;
  if (extra_) extra_(&figures);
  const Nanoseconds now = environment.clock->Wall();
  if (const auto end = figures.certificate_expires_seconds;
      end && *end < static_cast<double>((now + kLeastCertificate).count()) / 1e9) {
    const Nanoseconds wall(static_cast<int64_t>(*end * 1e9));
    return absl::StrCat("the controller's certificate ", wall < now ? "ended" : "ends", " at ", IsoUtc(wall),
                        " and was not renewed: see certificate.renewal_failed in its log");
  }
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
  auto name = [](v1::MachineState state) {
    return v1::MachineState_Name(state).substr(sizeof("MACHINE_STATE_") - 1);
  };
  // Every state is shown, with none in it too: an alert's series is there before its first case.
  for (int state = v1::MachineState_MIN + 1; state <= v1::MachineState_MAX; ++state)
    figures.machines_by_state[name(static_cast<v1::MachineState>(state))] = 0;
  for (const v1::Machine& machine : environment.registry->List(false)) {
    ++figures.machines_by_state[name(machine.state())];
    figures.oldest_heartbeat_seconds = std::max(figures.oldest_heartbeat_seconds.value_or(0),
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
  const http::Headers headers = PageHeaders();
  const std::string& path = request.path;
  // A page of somebody else's that the operator's browser shows must not read these under a name of its own
  // (DNS rebinding).
  if (!IsLoopbackName(request.header("host").value_or("localhost")))
    return response->Send(421, kText, "ask for 127.0.0.1, [::1] or localhost\n", headers);
  if (request.method != "GET" && request.method != "HEAD")
    return response->Send(405, kText, "only GET\n", headers);
  if (path == "/healthz") return response->Send(200, kText, "ok\n", headers);
  if (path == "/readyz") {
    double seconds = 0;
    const std::string why = NotReady(&seconds);
    return response->Send(why.empty() ? 200 : 503, kText, why.empty() ? "ready\n" : why + "\n", headers);
  }
  if (path == "/metrics")
    return response->Send(200, "text/plain; version=0.0.4; charset=utf-8", MetricsText(Figures()), headers);
  const char* type = nullptr;
  if (const std::string_view asset = WebAsset(path, &type); !asset.empty())
    return response->Send(200, type, std::string(asset), headers);
  if (path == "/") return response->Send(200, kHtml, WebPage(PageKind::kJobs), headers);
  if (path == "/machines") return response->Send(200, kHtml, WebPage(PageKind::kMachines), headers);
  if (path == "/reports") return response->Send(200, kHtml, WebPage(PageKind::kReports), headers);
  if (path.starts_with("/jobs/")) return AnswerJob(path.substr(6), response);
  if (path.starts_with("/api/")) return AnswerApi(path.substr(5), request.query, response);
  response->Send(404, kHtml,
                 ErrorPage(404, "There is no such page",
                           "There are: / (jobs), /machines, /reports, /metrics, /healthz and /readyz."),
                 headers);
}

void Web::AnswerJob(const std::string& rest, http::ResponseWriter* response) {
  const std::string id = rest.substr(0, rest.find('/'));
  const std::string what = rest.size() > id.size() ? rest.substr(id.size()) : "";
  auto job = id.empty() ? Result<StoredJob>(NotFound("job", "no id")) : jobs_->environment().store->Get(id);
  if (!job.ok())
    return response->Send(
        404, kHtml, ErrorPage(404, "There is no such job", "It may have been deleted, or have expired."),
        PageHeaders());
  if (what.empty()) return response->Send(200, kHtml, WebPage(PageKind::kJob, job->job.id()), PageHeaders());
  if (what == "/report.html") {
    // The stored id makes the path, never the one that was asked for.
    auto report = ReadFile(JoinPath(ResultsDir(jobs_->environment(), job->job.id()), results::kReportFile),
                           kMaxReportBytes);
    if (report.ok()) return response->Send(200, kHtml, std::move(*report), ReportHeaders());
    return response->Send(404, kHtml,
                          ErrorPage(404, "There is no report", "A job writes its report when it ends."),
                          PageHeaders());
  }
  response->Send(404, kHtml, ErrorPage(404, "There is no such page", "A job has its page and report.html."),
                 PageHeaders());
}

void Web::AnswerApi(const std::string& rest, const std::string& query, http::ResponseWriter* response) {
  if (rest == "jobs") return SendJson(JobsJson(query), response);
  if (rest == "machines") return SendJson(MachinesJson(), response);
  if (rest.starts_with("jobs/")) return SendJson(JobJson(rest.substr(5), query), response);
  SendJson(NotFound("api", "there are jobs, jobs/ID and machines"), response);
}

Result<Json> Web::DescribeJob(const v1::Job& job) {
  const bool report = IsTerminal(job.state()) &&
                      FileExists(JoinPath(ResultsDir(jobs_->environment(), job.id()), results::kReportFile));
  Json view = JobView(job, report);
  if (job.has_position()) {  // which was stored when its repeat began: those that ended since count, too
    POOLMARK_ASSIGN_OR_RETURN(const auto repeats, jobs_->environment().store->Repeats(job.id()));
    view["position"]["done"] = repeats.size();
  }
  return view;
}

Result<Json> Web::JobsJson(const std::string& query) {
  POOLMARK_ASSIGN_OR_RETURN(Store::Page page,
                            jobs_->environment().store->List({}, Number(query, "before"), kJobsOfPage));
  Json out = {{"now", IsoUtc(jobs_->environment().clock->Wall())},
              {"jobs", Json::array()},
              {"next", nullptr},
              {"counts", Json::object()}};
  for (const v1::Job& job : page.jobs) {
    POOLMARK_ASSIGN_OR_RETURN(Json view, DescribeJob(job));
    out["jobs"].push_back(std::move(view));
  }
  if (page.next != 0) out["next"] = page.next;
  POOLMARK_ASSIGN_OR_RETURN(const auto counts, jobs_->environment().store->CountByState());
  for (const auto& [state, count] : counts) out["counts"][state] = count;
  return out;
}

Result<Json> Web::JobJson(const std::string& id, const std::string& query) {
  Store* store = jobs_->environment().store;
  if (id.empty() || id.find('/') != std::string::npos) return NotFound("job", "there is no such job");
  POOLMARK_ASSIGN_OR_RETURN(const StoredJob stored, store->Get(id));
  const v1::Job& job = stored.job;
  POOLMARK_ASSIGN_OR_RETURN(const auto events,
                            store->Events(job.id(), Number(query, "after"), kEventsOfAnswer));
  POOLMARK_ASSIGN_OR_RETURN(Json described, DescribeJob(job));
  Json out = {{"now", IsoUtc(jobs_->environment().clock->Wall())},
              {"job", std::move(described)},
              {"events", Json::array()},
              {"more", events.size() == kEventsOfAnswer},
              {"ticks", Json::array()}};
  for (const v1::JobEvent& event : events) out["events"].push_back(EventView(event));
  if (IsTerminal(job.state())) {
    ticks_.Forget(job.id());
    return out;
  }
  for (const v1::JobEvent& event :
       ticks_.After(job.id(), static_cast<int64_t>(std::min<uint64_t>(Number(query, "ticks"), INT64_MAX)))) {
    Json tick = TickView(event);
    if (!tick.is_null()) out["ticks"].push_back(std::move(tick));
  }
  return out;
}

Json Web::MachinesJson() {
  Registry* registry = jobs_->environment().registry;
  Json out = {{"now", IsoUtc(jobs_->environment().clock->Wall())}, {"machines", Json::array()}};
  out["lease_seconds"] = static_cast<double>(registry->timing().lease.count()) / 1e9;
  for (const v1::Machine& machine : registry->List(true))
    out["machines"].push_back(MachineView(machine, registry->epoch(machine.name())));
  return out;
}

}  // namespace poolmark::controller
