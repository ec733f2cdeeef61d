#include "agent/facts/drives.h"

#include "agent/facts/text.h"

namespace poolmark::agent {

bool IsLeafDrive(const std::string& name) {
  for (const char* prefix : {"loop", "ram", "dm-", "md", "zram", "sr", "fd", "nbd", "drbd"}) {
    if (name.rfind(prefix, 0) == 0) return false;
  }
  // multipath NVMe: nvme0c0n1 is a path below nvme0n1
  if (name.rfind("nvme", 0) == 0 && name.find('c') != std::string::npos) return false;
  return true;
}

std::vector<DriveInfo> ReadDrives(const std::string& root) {
  std::vector<DriveInfo> drives;
  for (const std::string& name : Entries(root, "/sys/block")) {
    if (!IsLeafDrive(name)) continue;
    const std::string base = "/sys/block/" + name;
    const auto sectors = ReadUint(root, base + "/size");  // of 512 bytes, whatever the drive's own sector
    if (!sectors || *sectors == 0 || *sectors > UINT64_MAX / 512) continue;
    DriveInfo drive;
    drive.name = name;
    drive.model = ReadTrimmed(root, base + "/device/model").value_or("");
    drive.size_bytes = *sectors * 512;
    drive.rotational = ReadUint(root, base + "/queue/rotational").value_or(0) != 0;
    drives.push_back(std::move(drive));
  }
  return drives;
}

}  // namespace poolmark::agent
