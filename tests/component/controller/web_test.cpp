// The pages of a controller with jobs and machines, over HTTP: what they hold, what they refuse, and that
// foreign text stays text.
#include "controller/web/web.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/http/client.h"
#include "controller/web/pages.h"
#include "controller/web/views.h"
#include "tests/component/controller/fixture.h"

using namespace poolmark;
using namespace poolmark::controller;
using poolmark::test::ControllerFixture;

namespace {

constexpr char kHostile[] = "\"><script>alert(1)</script>";

struct Served {
  explicit Served(ControllerFixture* fixture, std::function<void(ControllerFigures*)> extra = nullptr) {
    auto started = Web::Start("127.0.0.1:0", fixture->jobs.get(), std::move(extra));
    INFO(started.status());
    REQUIRE(started.ok());
    web = std::move(*started);
  }
  http::Response Get(const std::string& path, const std::string& method = "GET") {
    http::Request request;
    request.method = method;
    request.url = *http::ParseUrl("http://127.0.0.1:" + std::to_string(web->port()) + path);
    request.timeout = std::chrono::seconds(60);
    auto response = http::MakeClient()->Send(request);
    INFO(path << ": " << response.status());
    REQUIRE(response.ok());
    return std::move(*response);
  }
  Json GetJson(const std::string& path) {
    const http::Response response = Get(path);
    INFO(path << ": " << response.body);
    REQUIRE(response.status == 200);
    auto json = ParseJson(response.body, path);
    REQUIRE(json.ok());
    return std::move(*json);
  }
  std::unique_ptr<Web> web;
};

v1::JobEvent Tick(int64_t wall_ns, const std::string& line) {
  v1::JobEvent event;
  event.set_kind("progress");
  event.set_wall_ns(wall_ns);
  event.set_data_json(line);
  return event;
}

}  // namespace

TEST_CASE("ready is who has a certificate for another day") {
  ControllerFixture f;
  std::atomic<double> hours{25};
  Served served(&f, [&](ControllerFigures* figures) {
    figures->certificate_expires_seconds =
        static_cast<double>(RealClock().Wall().count()) / 1e9 + hours * 3600;
  });
  CHECK(served.Get("/readyz").status == 200);
  hours = 23;
  CHECK(served.Get("/readyz").status == 503);
  CHECK(served.Get("/readyz").body.find("the controller's certificate ends at ") == 0);
  CHECK(served.Get("/healthz").status == 200);
  hours = -1;
  CHECK(served.Get("/readyz").body.find("the controller's certificate ended at ") == 0);
}

TEST_CASE("pages of jobs, machines and reports, with their JSON") {
  ControllerFixture f;
  Served served(&f);
  CHECK(served.GetJson("/api/jobs")["jobs"].empty());
  auto request = f.Request(2);
  request.set_name(kHostile);
  const std::string id = f.Submit(request);
  const v1::Job job = f.Finished(id);
  REQUIRE(StateName(job.state()) == "SUCCEEDED");

  const Json list = served.GetJson("/api/jobs");
  REQUIRE(list["jobs"].size() == 1);
  CHECK(list["jobs"][0]["name"] == kHostile);
  CHECK(list["jobs"][0]["report"] == true);
  CHECK(list["jobs"][0]["position"]["done"] == 2);
  CHECK(list["counts"]["SUCCEEDED"] == 1);
  const Json one = served.GetJson("/api/jobs/" + id + "?after=0&ticks=0");
  REQUIRE(one["events"].size() > 5);
  CHECK(one["events"][0]["sequence"] == 1);
  CHECK(served.GetJson("/api/jobs/" + id + "?after=5")["events"][0]["sequence"] == 6);
  CHECK(served.GetJson("/api/jobs/" + id + "?after=nonsense&ticks=-3")["events"].size() ==
        one["events"].size());
  const Json machines = served.GetJson("/api/machines")["machines"];
  REQUIRE(machines.size() == 2);
  CHECK(machines[0]["state"] == "READY");
  CHECK(machines[0]["epoch"] > 0);
  CHECK(machines[0]["facts"].contains("memory_bytes"));

  for (const std::string& path : std::vector<std::string>{"/", "/machines", "/reports", "/jobs/" + id}) {
    const http::Response page = served.Get(path);
    INFO(path);
    CHECK(page.status == 200);
    CHECK(page.body.find("<script>") == std::string::npos);
    CHECK_THAT(page.header("Content-Security-Policy").value_or(""),
               Catch::Contains("default-src 'none'; script-src 'self'"));
  }
  const http::Response report = served.Get("/jobs/" + id + "/report.html");
  CHECK(report.status == 200);
  CHECK(report.body == *ReadFile(f.Results(id) + "/report.html"));
  CHECK_THAT(report.header("Content-Security-Policy").value_or(""), Catch::Contains("sandbox allow-scripts"));
}

TEST_CASE("/metrics gives exact values in the text format, and no line for what is not known") {
  ControllerFigures figures;
  figures.jobs_by_state = {{"QUEUED", 0}, {"SUCCEEDED", 3}};
  figures.rpc_calls = 123'456'789;
  figures.start_time_seconds = 1'796'034'928.25;
  auto value = [](const std::string& text, const std::string& series) -> std::string {
    const size_t at = text.find("\n" + series + " ");
    if (at == std::string::npos) return "missing";
    const size_t begin = at + series.size() + 2;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  const std::string text = MetricsText(figures);
  CHECK(value(text, "poolmark_jobs{state=\"SUCCEEDED\"}") == "3");
  CHECK(value(text, "poolmark_jobs{state=\"QUEUED\"}") == "0");
  CHECK(value(text, "poolmark_rpc_calls_total") == "123456789");
  CHECK(std::stod(value(text, "process_start_time_seconds")) == 1'796'034'928.25);
  CHECK(value(text, "poolmark_certificate_expires_timestamp_seconds") == "missing");
  CHECK(value(text, "poolmark_heartbeat_age_seconds_max") == "missing");
  figures.certificate_expires_seconds = 1'827'570'928;
  CHECK(std::stod(value(MetricsText(figures), "poolmark_certificate_expires_timestamp_seconds")) ==
        1'827'570'928);

  ControllerFixture f;
  Served served(&f);
  const http::Response page = served.Get("/metrics");
  CHECK(page.status == 200);
  CHECK_THAT(page.header("Content-Type").value_or(""), Catch::Contains("version=0.0.4"));
  CHECK(value(page.body, "poolmark_jobs{state=\"SUCCEEDED\"}") == "0");
  CHECK(std::stod(value(page.body, "process_resident_memory_bytes")) > 1e6);
}

TEST_CASE("what is no page is refused, and nothing is written through one") {
  ControllerFixture f;
  Served served(&f);
  for (const char* path : {"/nowhere", "/jobs/", "/jobs/none", "/jobs/none/report.html",
                           "/jobs/../state/poolmark.db", "/jobs/%2e%2e/report.html", "/api/", "/api/jobs/",
                           "/api/jobs/none", "/api/jobs/a/b", "/assets/", "/assets/../app.css"}) {
    INFO(path);
    const http::Response response = served.Get(path);
    CHECK(response.status == 404);
    CHECK(response.body.find("/state/") == std::string::npos);
  }
  for (const char* method : {"POST", "PUT", "DELETE"}) CHECK(served.Get("/api/jobs", method).status == 405);
  CHECK_FALSE(Web::Start("0.0.0.0:0", f.jobs.get(), nullptr).ok());
  CHECK_FALSE(Web::Start("127.0.0.1:99999", f.jobs.get(), nullptr).ok());
}

TEST_CASE("foreign text in a page's frame is text") {
  const std::string page = WebPage(PageKind::kJob, kHostile);
  CHECK(page.find("<script>alert") == std::string::npos);
  CHECK_THAT(page, Catch::Contains("data-job=\"&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;\""));
  CHECK(ErrorPage(404, kHostile, kHostile).find("<script>alert") == std::string::npos);
}

TEST_CASE("progress is kept for those who look, from the moment they do") {
  EventHub hub;
  Ticks ticks(&hub, &RealClock());
  hub.Publish("j", Tick(1, "{}"));  // nobody looks yet
  CHECK(ticks.After("j", 0).empty());
  hub.Publish("j", Tick(2, R"({"in_flight": 3, "phase": "load"})"));
  v1::JobEvent step = Tick(3, "");
  step.set_kind("step");
  hub.Publish("j", step);
  hub.Publish("other", Tick(4, "{}"));
  const auto seen = ticks.After("j", 0);
  REQUIRE(seen.size() == 1);
  CHECK(TickView(seen[0])["in_flight"] == 3);
  CHECK(ticks.After("j", 2).empty());
  for (int i = 0; i < 2000; ++i) hub.Publish("j", Tick(10 + i, "{}"));
  CHECK(ticks.After("j", 0).size() == 600);  // bounded
  for (int i = 0; i < 100; ++i) (void)ticks.After("j" + std::to_string(i), 0);
  CHECK(ticks.watched() == 32);
  ticks.Forget("j");
  CHECK(ticks.After("j", 0).empty());
  CHECK(TickView(Tick(1, "no JSON")).is_null());
}
