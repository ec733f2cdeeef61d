// `-o json` everywhere: what any command says when it fails is one JSON object on stderr.
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/files.h"
#include "common/base/json.h"
#include "tests/component/cli/program.h"

namespace poolmark::test {
namespace {

using Words = std::vector<std::string>;

// All commands that the program itself documents; those that only hold others are left out.
std::set<std::string> Commands() {
  const Outcome help = Run("poolmark", {"help-markdown"});
  REQUIRE(help.code == 0);
  std::set<std::string> all;
  const std::string mark = "### poolmark ";
  for (size_t at = 0; (at = help.out.find(mark, at)) != std::string::npos;) {
    at += mark.size();
    all.insert(help.out.substr(at, help.out.find('\n', at) - at));
  }
  std::set<std::string> leaves;
  for (const std::string& command : all) {
    const auto below = all.lower_bound(command + " ");
    if (below == all.end() || below->find(command + " ") != 0) leaves.insert(command);
  }
  return leaves;
}

}  // namespace

TEST_CASE("every command that fails says why as JSON when it was asked for JSON", "[L3]") {
  TempDir dir;
  REQUIRE(MakeDirs(dir / "made").ok());
  REQUIRE(AtomicWriteFile(dir / "made/job.yaml", "version: 1\n").ok());
  const std::string nowhere = dir / "nowhere";
  const Words json = {"-o", "json"};
  const auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  // What fails in each: without a login whatever needs a controller does.
  std::map<std::string, Words> fails;
  for (const char* command : {"status", "watch", "events", "wait", "cancel", "delete", "logs", "fetch"})
    fails[command] = with({"job-1"}, json);
  for (const char* action : {"drain", "undrain", "quarantine", "clear", "revoke"})
    fails[std::string("machine ") + action] = with({"n0"}, json);
  for (const char* command : {"jobs", "machines", "stacks"}) fails[command] = json;
  fails["login"] = with({"no-token"}, json);
  fails["context use"] = fails["context forget"] = with({"lab"}, json);
  fails["context list"] = with({"--no-such-option"}, json);
  fails["version"] = with({"--no-such-option"}, json);  // without a controller it tells its own
  fails["submit"] = with({nowhere + "/job.yaml"}, json);
  fails["init"] = with({dir / "made"}, json);
  fails["cat"] = with({nowhere}, json);
  fails["completion"] = with({"tcsh"}, json);
  fails["catalogue list"] = with({"--catalogue", nowhere}, json);
  fails["catalogue confirm"] = with({"--catalogue", nowhere, "--file", nowhere}, json);
  fails["compare"] = with({nowhere, nowhere}, json);
  fails["report"] = with({nowhere}, json);
  fails["load"] = with({"--from", nowhere, "--export", "vllm"}, json);
  fails["workload inspect"] = with({nowhere}, json);
  fails["workload generate"] = {nowhere, "--out", dir / "out.jsonl", "--json"};
  for (const char* command : {"quality analyze", "quality show", "quality verify", "quality report"})
    fails[command] = with({nowhere}, json);
  fails["quality compare"] = with({nowhere, nowhere}, json);
  fails["quality run"] = {"--dataset", nowhere + ".json", "--out", dir / "out", "--progress", "json"};
  // `doctor` answers with rows, failed ones too; a relay is a process of a job and takes no -o.
  const std::set<std::string> others = {"doctor", "relay server", "relay client"};

  const std::set<std::string> commands = Commands();
  CHECK(commands.size() > 30);
  for (const std::string& command : commands) {
    INFO(command);
    if (others.contains(command)) continue;
    REQUIRE(fails.contains(command));  // a new command: say here how it fails
    Words words;
    for (size_t at = 0; at <= command.size();) {
      const size_t end = std::min(command.find(' ', at), command.size());
      words.push_back(command.substr(at, end - at));
      at = end + 1;
    }
    const Outcome outcome =
        Run("poolmark", with(words, fails[command]),
            {{"HOME", dir.path()}, {"XDG_CONFIG_HOME", dir / "config"}, {"POOLMARK_CONTEXT", ""}});
    INFO("code " << outcome.code << ", stdout: " << outcome.out << ", stderr: " << outcome.err);
    CHECK(outcome.code != 0);
    CHECK(outcome.code != 70);
    auto parsed = ParseJson(outcome.err);
    CHECK(parsed.ok());
    if (!parsed.ok()) continue;
    const auto errors = parsed->find("errors");
    REQUIRE(errors != parsed->end());
    REQUIRE(errors->is_array());
    REQUIRE_FALSE(errors->empty());
    for (const Json& error : *errors) {
      for (const char* key : {"code", "where", "message", "hint"}) {
        INFO(key);
        CHECK((error.contains(key) && error[key].is_string()));
      }
      CHECK_FALSE(error["message"].get<std::string>().empty());
    }
  }
}

}  // namespace poolmark::test
