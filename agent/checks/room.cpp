// Room for the tiers: lockable memory for the host tier, free space for the disk tier and the job's files.
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "agent/checks/each.h"
#include "agent/facts/system.h"
#include "agent/facts/text.h"
#include "common/base/units.h"

namespace poolmark::agent {
namespace {

// Logs, records and samples of a job.
constexpr uint64_t kForFiles = 1ull << 30;

// The nearest directory above that exists.
std::string Existing(std::string path) {
  while (!path.empty() && path != "/" && ::access(path.c_str(), F_OK) != 0) {
    const size_t slash = path.find_last_of('/');
    path = slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
  }
  return path.empty() ? "/" : path;
}

}  // namespace

Finding CheckMemlock(const v1::CheckPlan& plan, const CheckContext& context) {
  if (plan.host_tier_bytes() == 0) return Skipped("the plan has no host tier here");
  Finding finding;
  finding.expected =
      absl::StrCat("host tiers of ", FormatBytes(plan.host_tier_bytes()), " fit in what may be locked");
  const auto lockable = ReadLockable(context.facts.root);
  if (!lockable) {
    finding.outcome = v1::OUTCOME_NOT_MEASURED;
    finding.observed = "limits or memory of this machine could not be read";
    return finding;
  }
  for (const char* key : {"MemTotal", "MemAvailable", "Mlocked", "HugePages_Free"}) {
    const auto values = ParseMemInfo(ReadTrimmed(context.facts.root, "/proc/meminfo").value_or(""));
    const auto found = values.find(key);
    if (found != values.end()) AddLine(&finding.evidence, absl::StrCat(key, " ", found->second));
  }
  finding.observed =
      absl::StrCat(FormatBytes(lockable->bytes), " may be locked, decided by the ", lockable->why);
  if (plan.host_tier_bytes() > lockable->bytes) {
    finding.outcome = v1::OUTCOME_FAIL;
    finding.hint = absl::StrCat("lower the host tier to at most ", FormatBytes(lockable->bytes),
                                " or raise the limit (systemd: LimitMEMLOCK=infinity in the agent's unit)");
  }
  return finding;
}

namespace {

// Adds to `finding` what is to be said of one place.
void LookAtPlace(const std::string& asked, uint64_t tiers, uint64_t files, Finding* finding) {
  const auto join = [](std::string* text, const std::string& more) {
    absl::StrAppend(text, text->empty() ? "" : "; ", more);
  };
  join(&finding->expected,
       absl::StrCat(FormatBytes(tiers + files), " free below ", asked, " (disk tiers ", FormatBytes(tiers),
                    files > 0 ? absl::StrCat(", files of the job ", FormatBytes(files)) : "", ")"));
  const std::string path = Existing(asked);
  struct statvfs volume {};
  struct statfs kind {};
  if (::statvfs(path.c_str(), &volume) != 0 || ::statfs(path.c_str(), &kind) != 0) {
    finding->outcome = v1::OUTCOME_FAIL;
    join(&finding->observed, absl::StrCat(path, ": ", std::strerror(errno)));
    finding->hint = "give a directory of this machine as 'disk' in the pool file";
    return;
  }
  const uint64_t free_bytes = static_cast<uint64_t>(volume.f_bavail) * volume.f_frsize;
  join(&finding->observed, absl::StrCat(FormatBytes(free_bytes), " free at ", path));
  join(&finding->evidence,
       absl::StrCat("blocks ", volume.f_bavail, " of ", volume.f_frsize, " bytes, inodes ", volume.f_favail));
  if (free_bytes < tiers + files) {
    finding->outcome = v1::OUTCOME_FAIL;
    finding->hint = "free space, lower the disk tier, or name another directory as 'disk' in the pool file";
  } else if (::access(path.c_str(), W_OK) != 0) {
    finding->outcome = v1::OUTCOME_FAIL;
    absl::StrAppend(&finding->observed, ", not writable for this agent (", std::strerror(errno), ")");
    finding->hint = "let the agent's user write there";
  } else if (kind.f_type == 0x01021994 && tiers > 0) {  // TMPFS_MAGIC
    if (finding->outcome != v1::OUTCOME_FAIL) finding->outcome = v1::OUTCOME_NOTE;
    absl::StrAppend(&finding->observed, ", a tmpfs: memory, not a drive");
  }
}

}  // namespace

Finding CheckDiskSpace(const v1::CheckPlan& plan, const CheckContext& context) {
  Finding finding;
  const std::string& work = context.facts.work_dir;
  if (plan.disk_path().empty() || plan.disk_path() == work) {
    LookAtPlace(work, plan.disk_tier_bytes(), kForFiles, &finding);
  } else {
    LookAtPlace(plan.disk_path(), plan.disk_tier_bytes(), 0, &finding);
    LookAtPlace(work, 0, kForFiles, &finding);
  }
  for (const v1::DiskPlace& place : plan.disk_places()) LookAtPlace(place.path(), place.bytes(), 0, &finding);
  return finding;
}

}  // namespace poolmark::agent
