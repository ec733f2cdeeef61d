// The program itself, run to its end, for tests of its commands.
#pragma once
#include <cstdio>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "tests/component/load/process.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"
#include "tests/support/token_server.h"

namespace poolmark::load::test {

inline const std::string kProgram = poolmark::test::BuiltProgram("poolmark");

// Sanitizer lanes build the tests without the program.
inline bool NoProgram() {
  if (FileExists(kProgram)) return false;
  std::printf("skipped: no program\n");
  return true;
}

struct Done {
  int code = -1;
  std::string out, err;
};

// `poolmark load ARGUMENTS`, for a Process.
inline std::vector<std::string> LoadArgv(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {kProgram, "load"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

// `poolmark load ARGUMENTS`, or another command of the program.
inline Done Poolmark(const std::vector<std::string>& arguments, const std::string& command = "load") {
  const poolmark::test::TempDir dir;
  std::vector<std::string> argv = {kProgram, command};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  poolmark::test::Process process(argv, dir / "run");
  const auto code = process.Wait(60000);
  return {code.value_or(-1), process.out(), process.err()};
}

inline std::vector<std::string> Quick(const poolmark::test::TokenServer& server,
                                      const std::vector<std::string>& more) {
  std::vector<std::string> all = {"--url", server.url() + "/v1", "--model", "m", "--output-tokens", "3"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace poolmark::load::test
