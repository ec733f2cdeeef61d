#include "tests/support/temp_dir.h"

#include <cstdlib>

#include "common/base/files.h"

namespace poolmark::test {

TempDir::TempDir() {
  auto made = MakeTempDir("poolmark-test-");
  if (!made.ok()) std::abort();
  path_ = *made;
}

TempDir::~TempDir() {
  (void)RemoveTree(path_);
}

}  // namespace poolmark::test
