#include "controller/ca/ca.h"

#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/time_format.h"
#include "common/base/units.h"
#include "controller/ca/file_lock.h"
#include "controller/ca/sign.h"

namespace poolmark::controller {
namespace {

// Clocks of a pool agree within seconds; the allowance covers a machine that has not set its clock yet.
constexpr std::chrono::minutes kClockAllowance{5};
constexpr int kSchemaVersion = 1;

struct Revoked {
  std::string serial;
  Nanoseconds not_after{};
  Json record;
};

std::string TextField(const Json& json, const char* key) {
  auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}
int64_t NumberField(const Json& json, const char* key) {
  auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

Result<std::vector<Revoked>> ReadRevoked(const std::string& path) {
  std::vector<Revoked> all;
  if (!FileExists(path)) return all;
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  POOLMARK_ASSIGN_OR_RETURN(Json json, ParseJson(text, path));
  if (!json.is_object() || NumberField(json, "schema_version") != kSchemaVersion ||
      !json["revoked"].is_array()) {
    return Precondition(path, absl::StrCat("it is no revocation list of schema ", kSchemaVersion),
                        "restore it from a backup");
  }
  for (const Json& entry : json["revoked"]) {
    if (!entry.is_object()) return Precondition(path, "an entry is no object", "restore it from a backup");
    all.push_back({TextField(entry, "serial"), Nanoseconds(NumberField(entry, "not_after_ns")), entry});
  }
  return all;
}

// Names the file, and what helps: the CA does not enrol anywhere.
Status CheckOwnPair(const std::string& certificate, const std::string& key, const Status& checked) {
  if (checked.ok()) return checked;
  Error error = ErrorOf(checked);
  error.where = error.where == "key" ? key : certificate;
  error.kind = absl::StatusCode::kFailedPrecondition;  // nobody asked for something wrong
  error.hint =
      absl::IsFailedPrecondition(checked)
          ? "make a new CA ('poolmark-controller init' in a fresh state directory) and enrol everybody again"
          : "restore ca.pem and ca.key together from a backup of the state directory; without one make a "
            "new CA and enrol everybody again";
  return ToStatus(error);
}

bool IsMachineRole(rpc::Role role) {
  return role == rpc::Role::kAgent || role == rpc::Role::kController;
}

}  // namespace

Nanoseconds LifetimeOf(rpc::Role role) {
  return IsMachineRole(role) ? Nanoseconds(kMachineLifetime) : Nanoseconds(kUserLifetime);
}

struct Authority::State {
  explicit State(const Clock& c) : clock(c) {}
  const Clock& clock;
  std::string dir;
  std::string cluster;
  std::string ca_pem;
  std::string ca_key_pem;
  std::string ca_sha256;

  mutable std::mutex mutex;  // guards what follows
  mutable std::set<std::string> revoked;
  mutable std::vector<Revoked> revoked_records;
  mutable Nanoseconds looked{-std::chrono::hours(1)};
  mutable timespec modified{};
  mutable ino_t inode = 0;
  mutable std::shared_ptr<const std::map<std::string, Nanoseconds>> machine_ends;
  mutable off_t issued_size = -1;  // that machine_ends is of

  std::string Path(std::string_view name) const { return JoinPath(dir, name); }

  // The mutex is held. A list that cannot be read keeps the one before: nobody is let back in by a torn file.
  void Refresh(bool now) const {
    if (!now && clock.Steady() - looked < std::chrono::seconds(1)) return;
    looked = clock.Steady();
    struct stat status {};
    if (stat(Path("revoked.json").c_str(), &status) != 0) return;
    if (status.st_ino == inode && status.st_mtim.tv_sec == modified.tv_sec &&
        status.st_mtim.tv_nsec == modified.tv_nsec)
      return;
    auto read = ReadRevoked(Path("revoked.json"));
    if (!read.ok()) {
      Log(LogLevel::kError, "ca.revocation_list_unreadable", {{"why", std::string(read.status().message())}});
      return;
    }
    inode = status.st_ino;
    modified = status.st_mtim;
    revoked.clear();
    for (const Revoked& entry : *read) revoked.insert(entry.serial);
    revoked_records = std::move(*read);
  }
};

Authority::Authority() = default;
Authority::~Authority() = default;

Result<std::unique_ptr<Authority>> Authority::Create(const std::string& dir, const std::string& cluster,
                                                     const Clock& clock) {
  if (!IsName(cluster)) {
    return InvalidInput("cluster", absl::StrCat("'", cluster, "' is no name"),
                        "use [a-z0-9][a-z0-9._-]{0,62}");
  }
  POOLMARK_RETURN_IF_ERROR(MakeDirs(dir, 0700));
  if (chmod(dir.c_str(), 0700) != 0) return FromErrno(dir, "closing it to others", errno);
  POOLMARK_ASSIGN_OR_RETURN(FileLock lock, FileLock::Take(dir));
  if (FileExists(JoinPath(dir, "ca.key")) || FileExists(JoinPath(dir, "ca.pem"))) {
    return Precondition(
        dir, "there is a CA already",
        "a new one would lock out every machine and user; remove it by hand if you mean that");
  }
  POOLMARK_ASSIGN_OR_RETURN(std::string key, rpc::MakeKey());
  CertificatePlan plan;
  plan.common_name = absl::StrCat("poolmark CA ", cluster);
  plan.not_before = clock.Wall() - kClockAllowance;
  plan.not_after = clock.Wall() + kAuthorityLifetime;
  plan.is_ca = true;
  POOLMARK_ASSIGN_OR_RETURN(std::string certificate, SelfSign(key, plan));
  POOLMARK_RETURN_IF_ERROR(MakeDirs(JoinPath(dir, "tokens"), 0700));
  Json about = {{"schema_version", kSchemaVersion}, {"cluster", cluster}};
  POOLMARK_ASSIGN_OR_RETURN(std::string text, DumpJson(about, 2));
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(JoinPath(dir, "cluster.json"), text + "\n", 0600));
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(JoinPath(dir, "ca.pem"), certificate, 0644));
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(JoinPath(dir, "ca.key"), key, 0600));
  return Open(dir, clock);
}

Result<std::unique_ptr<Authority>> Authority::Open(const std::string& dir, const Clock& clock) {
  std::unique_ptr<Authority> authority(new Authority());
  authority->state_ = std::make_unique<State>(clock);
  State& state = *authority->state_;
  state.dir = dir;
  if (!FileExists(state.Path("ca.key")))
    return NotFound(dir, "there is no CA", "make one with 'poolmark-controller init'");
  struct stat status {};
  if (stat(state.Path("ca.key").c_str(), &status) == 0 && (status.st_mode & 077) != 0) {
    return Precondition(state.Path("ca.key"), "others can read the CA's key",
                        absl::StrCat("chmod 600 ", state.Path("ca.key")));
  }
  POOLMARK_ASSIGN_OR_RETURN(state.ca_key_pem, ReadFile(state.Path("ca.key"), 1u << 20));
  POOLMARK_ASSIGN_OR_RETURN(state.ca_pem, ReadFile(state.Path("ca.pem"), 1u << 20));
  POOLMARK_RETURN_IF_ERROR(
      CheckOwnPair(state.Path("ca.pem"), state.Path("ca.key"),
                   rpc::CheckKeyPair(state.ca_pem, state.ca_key_pem, state.ca_pem, clock.Wall())));
  POOLMARK_ASSIGN_OR_RETURN(rpc::CertificateInfo info, rpc::ParseCertificate(state.ca_pem));
  state.ca_sha256 = info.sha256;
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(state.Path("cluster.json"), 1u << 20));
  POOLMARK_ASSIGN_OR_RETURN(Json about, ParseJson(text, state.Path("cluster.json")));
  state.cluster = about.is_object() ? TextField(about, "cluster") : "";
  if (!IsName(state.cluster))
    return Precondition(state.Path("cluster.json"), "it names no cluster", "restore it from a backup");
  POOLMARK_RETURN_IF_ERROR(ReadRevoked(state.Path("revoked.json")).status());
  std::lock_guard lock(state.mutex);
  state.Refresh(true);
  return authority;
}

const std::string& Authority::cluster() const {
  return state_->cluster;
}
const std::string& Authority::ca_pem() const {
  return state_->ca_pem;
}
const std::string& Authority::ca_sha256() const {
  return state_->ca_sha256;
}

Result<std::string> Authority::Sign(const std::string& request_pem, rpc::Role role, const std::string& name,
                                    Nanoseconds lifetime) {
  POOLMARK_ASSIGN_OR_RETURN(FileLock lock, FileLock::Take(state_->dir));
  return SignLocked(request_pem, role, name, lifetime);
}

Result<std::string> Authority::Renew(const std::string& request_pem, rpc::Role role, const std::string& name,
                                     const std::string& serial) {
  POOLMARK_ASSIGN_OR_RETURN(FileLock file_lock, FileLock::Take(state_->dir));
  {
    std::lock_guard lock(state_->mutex);
    state_->Refresh(true);
    if (state_->revoked.count(serial) != 0) {
      return ToStatus(Error{absl::StatusCode::kPermissionDenied, "revoked", "", "the certificate was revoked",
                            "an admin can give a new token"});
    }
  }
  return SignLocked(request_pem, role, name, LifetimeOf(role));
}

Result<Authority::Enrolled> Authority::Enroll(TokenStore& tokens, const std::string& secret,
                                              const std::string& name, const std::string& request_pem) {
  POOLMARK_ASSIGN_OR_RETURN(FileLock lock, FileLock::Take(state_->dir));
  Enrolled enrolled;
  POOLMARK_ASSIGN_OR_RETURN(enrolled.grant, tokens.Take(secret, name));
  const TokenGrant& grant = enrolled.grant;
  auto certificate = SignLocked(request_pem, grant.role, grant.name, LifetimeOf(grant.role));
  if (!certificate.ok()) {
    tokens.PutBack(grant);
    return certificate.status();
  }
  enrolled.certificate_pem = std::move(*certificate);
  return enrolled;
}

Result<std::string> Authority::SignLocked(const std::string& request_pem, rpc::Role role,
                                          const std::string& name, Nanoseconds lifetime) {
  if (!IsName(name))
    return InvalidInput("name", absl::StrCat("'", name, "' is no name"), "use [a-z0-9][a-z0-9._-]{0,62}");
  if (role == rpc::Role::kNone) return InvalidInput("role", "a certificate needs a role");
  CertificatePlan plan;
  plan.common_name = name;
  plan.uris = {rpc::SpiffeUri(state_->cluster, role, name)};
  plan.serves = IsMachineRole(role);
  if (plan.serves) plan.dns_names = {rpc::ServerName(role, name)};
  plan.not_before = state_->clock.Wall() - kClockAllowance;
  plan.not_after = state_->clock.Wall() + lifetime;
  POOLMARK_ASSIGN_OR_RETURN(std::string leaf,
                            SignRequest(request_pem, plan, state_->ca_pem, state_->ca_key_pem));
  POOLMARK_ASSIGN_OR_RETURN(rpc::CertificateInfo info, rpc::ParseCertificate(leaf));
  Json record = {{"serial", info.serial},
                 {"name", name},
                 {"role", rpc::RoleName(role)},
                 {"issued", IsoUtc(state_->clock.Wall())},
                 {"not_after_ns", info.not_after.count()}};
  POOLMARK_ASSIGN_OR_RETURN(std::string line, DumpJson(record));
  // A line end first: half a line that a power cut left must not swallow this one.
  POOLMARK_RETURN_IF_ERROR(AppendFile(state_->Path("issued.jsonl"), "\n" + line + "\n", true, 0600));
  return leaf + state_->ca_pem;
}

Result<rpc::IdentityText> Authority::Issue(rpc::Role role, const std::string& name, Nanoseconds lifetime) {
  rpc::IdentityText text;
  POOLMARK_ASSIGN_OR_RETURN(text.key_pem, rpc::MakeKey());
  POOLMARK_ASSIGN_OR_RETURN(std::string request, rpc::MakeRequest(text.key_pem, name));
  POOLMARK_ASSIGN_OR_RETURN(text.certificate_pem, Sign(request, role, name, lifetime));
  text.ca_pem = state_->ca_pem;
  return text;
}

Result<size_t> Authority::Revoke(bool machine, const std::string& name) {
  POOLMARK_ASSIGN_OR_RETURN(FileLock file_lock, FileLock::Take(state_->dir));
  POOLMARK_RETURN_IF_ERROR(TokenStore(state_->dir, state_->clock).Withdraw(machine, name));
  POOLMARK_ASSIGN_OR_RETURN(auto issued, Issued());
  POOLMARK_ASSIGN_OR_RETURN(auto revoked, ReadRevoked(state_->Path("revoked.json")));
  const Nanoseconds now = state_->clock.Wall();
  std::erase_if(revoked, [now](const Revoked& entry) { return entry.not_after < now; });
  size_t added = 0;
  for (const IssuedCertificate& certificate : issued) {
    if (certificate.name != name || (certificate.role == rpc::Role::kAgent) != machine ||
        certificate.role == rpc::Role::kController)
      continue;
    if (certificate.not_after < now) continue;
    bool known = std::any_of(revoked.begin(), revoked.end(),
                             [&](const Revoked& entry) { return entry.serial == certificate.serial; });
    if (known) continue;
    Json record = {{"serial", certificate.serial},
                   {"name", name},
                   {"role", rpc::RoleName(certificate.role)},
                   {"revoked", IsoUtc(now)},
                   {"not_after_ns", certificate.not_after.count()}};
    revoked.push_back({certificate.serial, certificate.not_after, record});
    ++added;
  }
  Json list = {{"schema_version", kSchemaVersion}, {"revoked", Json::array()}};
  for (const Revoked& entry : revoked) list["revoked"].push_back(entry.record);
  POOLMARK_ASSIGN_OR_RETURN(std::string text, DumpJson(list, 2));
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(state_->Path("revoked.json"), text + "\n", 0600));
  std::lock_guard lock(state_->mutex);
  state_->Refresh(true);
  return added;
}

bool Authority::IsRevoked(const std::string& serial) const {
  std::lock_guard lock(state_->mutex);
  state_->Refresh(false);
  return state_->revoked.count(serial) != 0;
}

std::vector<std::string> Authority::RevokedSerials() const {
  std::lock_guard lock(state_->mutex);
  state_->Refresh(false);
  std::vector<std::string> serials;
  for (const Revoked& entry : state_->revoked_records) {
    if (entry.not_after >= state_->clock.Wall()) serials.push_back(entry.serial);
  }
  return serials;
}

Result<std::vector<IssuedCertificate>> Authority::Issued() const {
  std::vector<IssuedCertificate> all;
  const std::string path = state_->Path("issued.jsonl");
  if (!FileExists(path)) return all;
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  for (std::string_view rest = text; !rest.empty();) {
    size_t end = rest.find('\n');
    std::string_view one = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    // A power cut may leave half a line; its certificate was never given out.
    auto line = ParseJson(one, path);
    if (!line.ok() || !line->is_object()) continue;
    IssuedCertificate entry;
    entry.serial = TextField(*line, "serial");
    entry.name = TextField(*line, "name");
    entry.role = rpc::ParseRole(TextField(*line, "role")).value_or(rpc::Role::kNone);
    entry.not_after = Nanoseconds(NumberField(*line, "not_after_ns"));
    entry.revoked = IsRevoked(entry.serial);
    all.push_back(std::move(entry));
  }
  std::reverse(all.begin(), all.end());
  return all;
}

std::shared_ptr<const std::map<std::string, Nanoseconds>> Authority::MachineEnds() const {
  struct stat status {};
  const off_t size = stat(state_->Path("issued.jsonl").c_str(), &status) == 0 ? status.st_size : 0;
  {
    std::lock_guard lock(state_->mutex);
    if (state_->machine_ends && state_->issued_size == size) return state_->machine_ends;
  }
  auto ends = std::make_shared<std::map<std::string, Nanoseconds>>();
  if (auto issued = Issued(); issued.ok()) {
    for (const IssuedCertificate& certificate : *issued) {  // newest first
      if (certificate.role == rpc::Role::kAgent) ends->try_emplace(certificate.name, certificate.not_after);
    }
  }
  std::lock_guard lock(state_->mutex);
  state_->machine_ends = ends;
  state_->issued_size = size;
  return ends;
}

}  // namespace poolmark::controller
