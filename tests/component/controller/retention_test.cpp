// Finished jobs expire by age and by size when the operator asked for it, never otherwise.
#include "common/base/files.h"
#include "tests/component/controller/fixture.h"

namespace poolmark::test {
namespace {

void Reopen(ControllerFixture& f, controller::Retention retention) {
  std::lock_guard lock(f.mutex);
  f.jobs.reset();
  f.jobs = std::make_unique<controller::JobManager>(f.environment, retention);
  REQUIRE(f.jobs->Start().ok());
}

uint64_t BytesOf(const std::string& directory) {
  uint64_t bytes = 0;
  auto files = ListTree(directory);
  REQUIRE(files.ok());
  for (const std::string& file : *files) bytes += ReadFile(JoinPath(directory, file)).value_or("").size();
  return bytes;
}

TEST_CASE("finished jobs expire by age, with their results; a running one stays") {
  ControllerFixture f;
  const std::string old = f.Submit(f.Request());
  REQUIRE(f.Finished(old).finished_wall_ns() != 0);
  const std::string results = f.Results(old);
  Reopen(f, {});
  CHECK(f.store->Get(old).ok());  // nothing was asked for
  auto gate = std::make_shared<Gate>("StartSampling");
  f.pool.SetHook(
      [gate](const std::string& m, const std::string& c, std::stop_token s) { return (*gate)(m, c, s); });
  const std::string running = f.Submit(f.Request(2));
  gate->AwaitReached();
  controller::Retention retention;
  retention.max_age = std::chrono::milliseconds(1);
  gate->Open();
  Reopen(f, retention);
  f.Until([&] { return !f.store->Get(old).ok(); });
  f.Until([&] { return !FileExists(results); });
  CHECK(f.store->Get(running).ok());
}

TEST_CASE("a deletion that a crash cut in two is finished at the next start, and takes nothing else along") {
  ControllerFixture f;
  const std::string gone = f.Submit(f.Request());
  f.Finished(gone);
  const std::string kept = f.Submit(f.Request());
  f.Finished(kept);
  REQUIRE(MakeDirs(f.Results("of-nobody")).ok());
  f.Until([&] { return f.jobs->running() == 0; });
  REQUIRE(f.store->Delete(gone).ok());  // and no more: the files are there
  REQUIRE(FileExists(f.Results(gone)));
  f.Restart();
  CHECK_FALSE(FileExists(f.Results(gone)));
  CHECK(FileExists(f.Results(kept) + "/job.json"));
  CHECK(FileExists(f.Results("of-nobody")));  // whose it is, no deletion says
  CHECK(f.store->Deletions()->empty());
}

TEST_CASE("when all results take too much, the oldest finished jobs go") {
  ControllerFixture f;
  const std::string first = f.Submit(f.Request());
  f.Finished(first);
  const std::string second = f.Submit(f.Request());
  f.Finished(second);
  const uint64_t newer = BytesOf(f.Results(second));
  controller::Retention retention;
  retention.max_bytes = newer + BytesOf(f.Results(first)) / 2;
  Reopen(f, retention);
  f.Until([&] { return !f.store->Get(first).ok(); });
  f.Until([&] { return !FileExists(f.Results(first)); });
  CHECK(f.store->Get(second).ok());
  CHECK(BytesOf(f.Results(second)) == newer);
}

}  // namespace
}  // namespace poolmark::test
