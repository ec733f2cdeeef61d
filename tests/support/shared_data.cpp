#include "tests/support/shared_data.h"

#include <cstdio>
#include <cstdlib>

#include "common/base/files.h"

namespace poolmark::test {

std::optional<std::string> SharedData() {
  const char* given = std::getenv("POOLMARK_SHARED_DATA");
  std::string path = given != nullptr ? given : std::string(POOLMARK_SOURCE_DIR) + "/../shared";
  if (FileExists(path + "/data")) return path;
  std::printf("skipped: no shared data\n");
  return std::nullopt;
}

std::string Source(const std::string& relative) {
  return std::string(POOLMARK_SOURCE_DIR) + "/" + relative;
}

std::string BuiltProgram(const std::string& name) {
  return std::string(POOLMARK_BIN_DIR) + "/" + name;
}

std::string Root(const std::string& name) {
  return Source("tests/data/roots/" + name);
}

}  // namespace poolmark::test
