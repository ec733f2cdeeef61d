// A file system of its own in memory, small enough to fill. Needs the right to mount: look at mounted()
// first.
#pragma once
#include <string>

namespace poolmark::test {

class SmallDisk {
 public:
  // `size` as tmpfs takes it: "32m", "256k". Makes the directory and mounts over it until the end of its
  // life.
  SmallDisk(std::string path, const std::string& size);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  const std::string& path() const { return path_; }
  // To the last byte, by a file that Free removes.
  void Fill() const;
  void Free() const;

 private:
  std::string path_;
  bool mounted_ = false;
};

}  // namespace poolmark::test
