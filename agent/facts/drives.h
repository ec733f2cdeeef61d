// Drives from /sys/block: whole disks, no loop, ram, device-mapper or md devices (they count their members
// again). Reads below a root directory.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace poolmark::agent {

struct DriveInfo {
  std::string name;
  std::string model;
  uint64_t size_bytes = 0;
  bool rotational = false;
};
// Is this block device a disk of its own?
bool IsLeafDrive(const std::string& name);
std::vector<DriveInfo> ReadDrives(const std::string& root);

}  // namespace poolmark::agent
