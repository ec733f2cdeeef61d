#include "tests/support/small_disk.h"

#include <sys/mount.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>

#include "common/base/files.h"

namespace poolmark::test {

SmallDisk::SmallDisk(std::string path, const std::string& size) : path_(std::move(path)) {
  REQUIRE(MakeDirs(path_, 0700).ok());
  const std::string options = "mode=0700,size=" + size;
  mounted_ = mount("tmpfs", path_.c_str(), "tmpfs", MS_NOSUID, options.c_str()) == 0;
}

SmallDisk::~SmallDisk() {
  if (mounted_) umount2(path_.c_str(), MNT_DETACH);
}

void SmallDisk::Fill() const {
  FILE* file = fopen((path_ + "/ballast").c_str(), "wb");
  REQUIRE(file != nullptr);
  setvbuf(file, nullptr, _IONBF, 0);
  const std::string page(4096, 'x');
  while (fwrite(page.data(), 1, page.size(), file) == page.size()) continue;
  while (fputc('x', file) != EOF) continue;
  fclose(file);
}

void SmallDisk::Free() const {
  REQUIRE(unlink((path_ + "/ballast").c_str()) == 0);
}

}  // namespace poolmark::test
