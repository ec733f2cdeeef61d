// The controller's small files, empty and cut in half, as a crash or a full disk of another program leaves
// them: it starts all the same, or says which file it is.
#include <filesystem>

#include "controller/api/server.h"
#include "controller/ca/ca.h"
#include "controller/ca/settings.h"
#include "tests/component/controller/fixture.h"

namespace poolmark::test {
namespace {

Result<std::unique_ptr<controller::Controller>> Start(const std::string& state, FakePool* pool) {
  controller::ServeOptions options;
  options.state = state;
  options.catalogue_dir = Source("deploy");
  options.make_link = pool->Factory();
  return controller::Controller::Start(options, &RealClock());
}

}  // namespace

TEST_CASE("each small file of the controller, empty and in half: it starts, or names the file", "[live]") {
  TempDir dir;
  const std::string state = dir / "state";
  controller::InitOptions init;
  init.state = state;
  init.cluster = "lab";
  init.settings.listen = init.settings.enroll_listen = "127.0.0.1:0";
  REQUIRE(controller::Init(init, RealClock()).ok());
  FakePool pool({"n0"});
  {
    auto running = Start(state, &pool);
    INFO(running.status());
    REQUIRE(running.ok());
    auto authority = controller::Authority::Open(controller::AuthorityDir(state), RealClock());
    REQUIRE(authority.ok());
    REQUIRE((*authority)->Issue(rpc::Role::kViewer, "eve", std::chrono::hours(1)).ok());
    REQUIRE((*authority)->Revoke(false, "eve").ok());
    REQUIRE(
        controller::CreateToken(state, "ada", rpc::Role::kViewer, std::chrono::hours(1), RealClock()).ok());
    // What a daemon that was killed leaves.
    std::filesystem::copy(
        state, dir / "killed",
        std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  }
  const std::string killed = dir / "killed";
  const auto files = ListTree(killed);
  REQUIRE(files.ok());
  int tried = 0, started = 0;
  for (const std::string& file : *files) {
    // The store has tests of its own.
    if (file.find("poolmark.db") != std::string::npos || file == "lock") continue;
    const std::string text = ReadFile(JoinPath(killed, file), 1u << 20).value_or("");
    if (text.empty()) continue;
    for (const size_t left : {size_t{0}, text.size() / 2}) {
      INFO(file << ", " << left << " of " << text.size() << " bytes");
      const std::string broken = dir / "broken";
      std::filesystem::remove_all(broken);
      std::filesystem::copy(
          killed, broken,
          std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
      REQUIRE(AtomicWriteFile(JoinPath(broken, file), text.substr(0, left), 0600).ok());
      auto controller = Start(broken, &pool);
      ++tried;
      if (controller.ok()) {
        ++started;
        continue;
      }
      const std::string message(controller.status().message());
      INFO(message);
      CHECK(message.find(file.substr(file.rfind('/') + 1)) != std::string::npos);
    }
  }
  CHECK(tried >= 16);
  CHECK(started >= 4);
}

}  // namespace poolmark::test
