// Tables, printable text, completions, and the files that `poolmark init` writes.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands/completion.h"
#include "cli/commands/examples.h"
#include "cli/output/exit_code.h"
#include "cli/output/one_line.h"
#include "cli/output/table.h"
#include "common/base/files.h"
#include "common/spec/read.h"
#include "tests/support/shared_data.h"

namespace poolmark::cli {

TEST_CASE("the example files are right as they are") {
  auto files = [](const std::string& name) -> Result<std::string> {
    for (const ExampleFile& file : kExamples) {
      if (name == file.name) return std::string(file.text);
    }
    return ReadFile(test::Source("deploy/stacks/" + name + ".yaml"));
  };
  Errors errors;
  auto job = spec::ReadJob(*files("job.yaml"), "job.yaml", files, {}, &errors);
  for (const Error& error : errors) UNSCOPED_INFO(ToStatus(error).message());
  REQUIRE(job.ok());
  CHECK(job->stacks.size() == 2);
  CHECK(job->pool.machines.size() == 2);
  CHECK(spec::FilesOf(*files("job.yaml"), "job.yaml")->size() == 2);
}

TEST_CASE("text from elsewhere cannot drive the terminal") {
  CHECK(Printable("plain") == "plain");
  CHECK(Printable("é × 日本") == "é × 日本");
  CHECK(Printable("a\x1b[31mb") == "a\\x1b[31mb");
  CHECK(Printable("a\nb\tc\r") == "a\\x0ab\\x09c\\x0d");
  CHECK(Printable("a\nb\tc\r", true) == "a\nb\tc\\x0d");
  CHECK(Printable("\xc2\x9b"
                  "31m") == "\\x9b31m");  // C1 form of ESC [
  CHECK(Printable("gpu\xe2\x80\xae"
                  "txt") == "gpu\\u202etxt");  // right-to-left override
  CHECK(Printable("x\xe2\x81\xa6y") == "x\\u2066y");
  CHECK(Printable(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(Printable("\xff") == "\xef\xbf\xbd");
}

TEST_CASE("tables align by width on screen and end no line with spaces") {
  Table table({"NAME", "STATE", "WHY"});
  table.Add({{"n0"}, {"READY"}, {""}});
  table.Add({{"日本語"}, {"LOST"}, {"no\nbeat"}});
  CHECK(table.Text() ==
        "NAME  STATE  WHY\n"
        "n0    READY\n"
        "日本語   LOST   no | beat\n");
  CHECK(DisplayWidth("日本語") == 3);
}

TEST_CASE("errors for people and for programs") {
  Errors errors = {{absl::StatusCode::kInvalidArgument, "gpus", "job.yaml:3", "asks for 8", "lower it"}};
  CHECK(ErrorText(errors, Format::kTable) == "poolmark: job.yaml:3: asks for 8: lower it\n");
  auto json = ParseJson(ErrorText(errors, Format::kJson));
  REQUIRE(json.ok());
  CHECK((*json)["errors"][0]["hint"] == "lower it");
  CHECK(ExitCodeOf(InvalidInput("", "")) == 2);
  CHECK(ExitCodeOf(Internal("", "")) == 70);
  CHECK(ExitCodeOf(Unavailable("", "")) == 1);
  CHECK(ExitCodeOf(absl::OkStatus()) == 0);
}

TEST_CASE("text of several lines becomes one in tables and lines of events") {
  CHECK(OneLine("not expected: 5\nRun with --help\n") == "not expected: 5 | Run with --help");
  CHECK(OneLine("\n\na\r\n\nb\r") == "a | b");
  CHECK(OneLine("").empty());
  CHECK(OneLine("\n").empty());
}

TEST_CASE("completions name commands and options at their level") {
  CommandNode jobs{"jobs",
                   "it's all",
                   {{"--output", "form", true, {"table", "json"}}, {"--label", "l", true, {}}},
                   {},
                   {}};
  CommandNode machine{"machine", "m", {}, {{"drain", "d", {}, {}, {"a", "b"}}}, {}};
  CommandNode root{"poolmark", "", {{"--version", "v", false, {}}}, {jobs, machine}, {}};
  std::string bash = CompletionScript(root, "bash");
  CHECK(bash.find("\"|\"*) words=\"jobs machine --version\"") != std::string::npos);
  CHECK(bash.find("\" machine drain|\"*) words=\"a b\"") != std::string::npos);
  CHECK(bash.find("\" jobs|--output\") words=\"table json\"") != std::string::npos);
  CHECK(bash.find("\" jobs|--label\") words=\"\"") != std::string::npos);
  CHECK(CompletionScript(root, "zsh").find("#compdef poolmark\n") == 0);
  std::string fish = CompletionScript(root, "fish");
  CHECK(fish.find("-a jobs -d 'it\\'s all'") != std::string::npos);
  CHECK(fish.find("-l output -x -a 'table json'") != std::string::npos);
  CHECK(fish.find("-l label -r") != std::string::npos);
}

}  // namespace poolmark::cli
