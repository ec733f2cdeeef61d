// What `poolmark logs` is sent of a job over fake agents: with `follow` all that its processes print until it
// ends.
#include <algorithm>
#include <map>

#include "controller/api/job_logs.h"
#include "tests/component/controller/fixture.h"

namespace poolmark::test {
namespace {

using controller::StateName;

// A client in a thread of its own that keeps what it is sent.
class Client {
 public:
  Client(ControllerFixture* f, const std::string& job, uint64_t tail_bytes = 0,
         const std::string& process = "") {
    request_.set_job_id(job);
    request_.set_follow(true);
    request_.set_tail_bytes(tail_bytes);
    request_.set_process(process);
    thread_ = std::jthread([this, f](std::stop_token stop) {
      Status status = controller::SendLogs(*f->jobs, request_, stop, [this](v1::StreamJobLogsResponse chunk) {
        std::lock_guard lock(mutex_);
        text_[chunk.process()] += chunk.data();
        return !gone_;
      });
      std::lock_guard lock(mutex_);
      ended_ = status;
    });
  }
  void Leave() {
    std::lock_guard lock(mutex_);
    gone_ = true;
  }
  std::optional<Status> ended() {
    std::lock_guard lock(mutex_);
    return ended_;
  }
  std::map<std::string, std::string> text() {
    std::lock_guard lock(mutex_);
    return text_;
  }
  size_t Count(const std::string& process, const std::string& what) {
    const std::string text = this->text()[process];
    size_t count = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
    return count;
  }

 private:
  v1::StreamJobLogsRequest request_;
  std::mutex mutex_;  // the rest but the thread
  std::map<std::string, std::string> text_;
  std::optional<Status> ended_;
  bool gone_ = false;
  std::jthread thread_;
};

void AwaitLoad(ControllerFixture* f) {
  ControllerFixture::Until([&] {
    const auto running = f->pool.at("n0").Processes();
    return std::any_of(running.begin(), running.end(),
                       [](const std::string& p) { return p.find(".load-") != std::string::npos; });
  });
}

TEST_CASE("logs that are followed from preflight on hold what each process of each cycle printed, once") {
  ControllerFixture f;
  auto gate = std::make_shared<Gate>("RunChecks");
  f.pool.SetHook(
      [gate](const std::string& m, const std::string& c, std::stop_token s) { return (*gate)(m, c, s); });
  f.pool.hold_load = true;
  const std::string id = f.Submit(f.Request(2));
  gate->AwaitReached();
  Client client(&f, id);
  gate->Open();
  // The first cycle's engines are heard while they live; then one dies, and a second cycle follows.
  ControllerFixture::Until([&] { return client.Count("base.engine-n0", "as pid") == 1; });
  AwaitLoad(&f);
  CHECK(!client.ended());
  f.pool.hold_load = false;
  f.pool.at("n1").Die("base.engine-n1", 139);
  CHECK(StateName(f.Finished(id).state()) == "SUCCEEDED");
  ControllerFixture::Until([&] { return client.ended().has_value(); });
  CHECK(client.ended()->ok());
  REQUIRE(f.pool.launched == 4);
  for (const std::string process : {"base.engine-n0", "base.engine-n1"}) {
    INFO(client.text()[process]);
    CHECK(client.Count(process, "as pid") == 2);
    CHECK(client.Count(process, "last words of " + process + "\n") == 2);
  }
  // The load of the second cycle did not exist when the client came.
  const auto text = client.text();
  CHECK(std::any_of(text.begin(), text.end(), [](const auto& one) {
    return one.first.starts_with("base.load-") && one.first.ends_with(".2") && !one.second.empty();
  }));
}

TEST_CASE("logs --follow: the tail is of what ran before, a name of nobody is refused at once") {
  ControllerFixture f;
  f.pool.hold_load = true;
  const std::string id = f.Submit(f.Request(2));
  AwaitLoad(&f);
  Client nobody(&f, id, 0, "nobody");
  ControllerFixture::Until([&] { return nobody.ended().has_value(); });
  CHECK(absl::IsNotFound(*nobody.ended()));
  CHECK(std::string(nobody.ended()->message()).find("base.engine-n0") != std::string::npos);
  Client client(&f, id, 4, "engine-n0");
  ControllerFixture::Until([&] { return client.Count("base.engine-n0", "-n0\n") == 1; });
  Client leaves(&f, id);
  ControllerFixture::Until([&] { return !leaves.text().empty(); });
  leaves.Leave();
  f.pool.hold_load = false;
  f.pool.at("n1").Die("base.engine-n1", 139);
  f.Finished(id);
  for (Client* one : {&client, &leaves}) {
    ControllerFixture::Until([&] { return one->ended().has_value(); });
    CHECK(one->ended()->ok());
  }
  CHECK(client.text().size() == 1);
  CHECK(client.text()["base.engine-n0"].starts_with("-n0\nbase.engine-n0 as pid"));
  // From its end on, the same question is answered from the stored files.
  Client late(&f, id, 0, "engine-n0");
  ControllerFixture::Until([&] { return late.ended().has_value(); });
  CHECK(late.ended()->ok());
  CHECK(late.text().contains("2/base.engine-n0"));
}

}  // namespace
}  // namespace poolmark::test
