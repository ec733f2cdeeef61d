#include "agent/process/allow_list.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>

#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/secrets.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::process;
using poolmark::test::TempDir;

namespace {

bool Says(const Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("an allow-list permits what it names and nothing else") {
  TempDir dir;
  REQUIRE(AtomicWriteFile(dir / "tool", "#!/bin/sh\n", 0755).ok());
  std::string digest = Sha256Hex("#!/bin/sh\n");
  std::string yaml =
      "version: 1\nexecutables:\n  sh: /bin/sh\n  tool: {path: " + (dir / "tool") + ", sha256: " + digest +
      "}\nimages: [vllm/vllm-openai@sha256:aa]\ncontainers: {docker: /usr/bin/docker}\nmounts: [/usr]\n"
      "devices: [/dev/infiniband, /dev/kfd]\nports: [8000]\n";
  auto list = AllowList::Parse(yaml, "allow.yaml");
  REQUIRE(list.ok());
  CHECK(list->Executable("sh")->path == "/bin/sh");
  CHECK(list->Executable("/bin/sh")->name == "sh");
  CHECK(list->Executable("tool").ok());
  CHECK(list->names() == std::vector<std::string>{"sh", "tool"});
  for (const char* other : {"bash", "/bin/bash", "../sh", "sh ", "", "/bin/sh;true", "SH"}) {
    INFO(other);
    auto refused = list->Executable(other);
    REQUIRE_FALSE(refused.ok());
    CHECK(ErrorOf(refused.status()).code == "not_allowed");
  }
  CHECK(Says(list->Executable("/opt/x/vllm").status(), "\"  vllm: /opt/x/vllm\""));
  // The file was changed since it was allowed.
  REQUIRE(AtomicWriteFile(dir / "tool", "#!/bin/sh\necho other\n", 0755).ok());
  CHECK(ErrorOf(list->Executable("tool").status()).code == "digest");

  CHECK(list->Image("vllm/vllm-openai@sha256:aa").ok());
  CHECK(Says(list->Image("vllm/vllm-openai@sha256:bb"), "- vllm/vllm-openai@sha256:bb"));
  CHECK(Says(list->Image("vllm/vllm-openai:latest"), "has no digest"));
  CHECK(*list->ContainerTool("docker") == "/usr/bin/docker");
  CHECK(Says(list->ContainerTool("podman").status(), "podman: "));
  CHECK(*list->Mount("/usr", {}, {}) == "/usr");
  CHECK(*list->Mount("/usr/share", {}, {}) == "/usr/share");
  for (const char* bad : {"/usrx", "/usr/../etc", "/", "usr", "/var/run/docker.sock", "/usr/"})
    CHECK_FALSE(list->Mount(bad, {}, {}).ok());
  CHECK(list->Device("/dev/infiniband/uverbs0").ok());
  CHECK(list->Device("/dev/kfd:/dev/kfd:rw").ok());
  CHECK_FALSE(list->Device("/dev/sda").ok());
  CHECK(list->MayProbe(8000));
  CHECK_FALSE(list->MayProbe(8001));
}

TEST_CASE("all mistakes of an allow-list are told at once, with line and column") {
  auto list = AllowList::Parse(
      "version: 2\nexecutables:\n  a: relative\n  b: {path: /bin/b, sha256: xyz}\n  c: {sha: 1, path: "
      "/bin/../c}\nimages: [x:latest]\n"
      "wrong: 1\nports: [0]\n",
      "allow.yaml");
  REQUIRE_FALSE(list.ok());
  for (const char* part : {"allow.yaml:1:", "allow.yaml:3:6", "allow.yaml:4:", "unknown key 'sha'",
                           "has no digest", "'wrong'", "'0' is no TCP port"}) {
    INFO(part);
    CHECK(Says(list.status(), part));
  }
  CHECK_FALSE(AllowList::Parse("a: [", "allow.yaml").ok());
  CHECK_FALSE(AllowList::Parse("- a", "allow.yaml").ok());
  CHECK(AllowList::Parse("", "allow.yaml").ok());
}

TEST_CASE("secrets are given by program and image, BMC logins by address and kind", "[C12]") {
  auto list = AllowList::Parse(
      "version: 1\nsecrets: {hf: [sh, dash, vllm@sha256:aa], none: []}\nexecutables: {sh: /bin/sh, dash: "
      "/bin/dash, twin: /bin/sh, cat: /bin/cat}\nimages: [vllm@sha256:aa, other@sha256:bb]\nbmc:\n  - "
      "{address: 10.9.0.1, kind: redfish, login: bmc}\n  - {address: \"[fd00::9]:443\", kind: redfish, "
      "login: bmc, verify: false}\n",
      "allow.yaml");
  INFO(list.status());
  REQUIRE(list.ok());
  for (const char* program : {"sh", "/bin/sh", "twin", "dash"}) CHECK(list->Secret("hf", program, "").ok());
  CHECK(list->Secret("hf", "", "vllm@sha256:aa").ok());
  for (const char* program : {"cat", "/bin/cat", "/bin/bash", "", "vllm@sha256:aa/x"})
    CHECK_FALSE(list->Secret("hf", program, "").ok());
  CHECK_FALSE(list->Secret("hf", "sh", "other@sha256:bb").ok());  // what counts is the image
  CHECK_FALSE(list->Secret("none", "sh", "").ok());
  CHECK_FALSE(list->Secret("bmc", "sh", "").ok());
  CHECK(Says(list->Secret("hf", "/bin/cat", ""), "\"  hf: [sh, dash, vllm@sha256:aa, cat]\""));
  CHECK(Says(list->Secret("new", "cat", ""), "add below 'secrets:' the line \"  new: [cat]\""));
  CHECK(list->secrets().at("hf") ==
        std::vector<std::string>{"sh", "/bin/sh", "dash", "/bin/dash", "vllm@sha256:aa"});
  CHECK(list->Bmc("redfish", "10.9.0.1", "bmc")->verify);
  CHECK_FALSE(list->Bmc("redfish", "[fd00::9]:443", "bmc")->verify);
  for (const auto& [kind, address, login] : {std::array<const char*, 3>{"ipmitool", "10.9.0.1", "bmc"},
                                             {"redfish", "10.9.0.2", "bmc"},
                                             {"redfish", "10.9.0.1:443", "bmc"},
                                             {"redfish", "", "bmc"},
                                             {"redfish", "10.9.0.1", "hf"}}) {
    CAPTURE(kind, address, login);
    const auto refused = list->Bmc(kind, address, login);
    REQUIRE_FALSE(refused.ok());
    CHECK(ErrorOf(refused.status()).code == "not_allowed");
    CHECK(Says(refused.status(), std::string("login: ") + login + "}"));
  }
  auto nothing = AllowList::Parse("", "allow.yaml");
  CHECK_FALSE(nothing->Secret("hf", "sh", "").ok());
  CHECK_FALSE(nothing->Bmc("redfish", "10.9.0.1", "bmc").ok());
  auto wrong = AllowList::Parse(
      "executables: {sh: /bin/sh}\nsecrets: {hf: [shh], ../x: [sh], y: sh}\nbmc:\n  - {address: -H, kind: "
      "telnet, login: a/b}\n  - {address: 10.9.0.1, kind: ipmitool, login: b, verify: false}\n  - {kind: "
      "redfish}\n  - x\n",
      "allow.yaml");
  REQUIRE_FALSE(wrong.ok());
  for (const char* part :
       {"'shh' is no name of 'executables:'", "'../x' is no name of a secret", "secret y must have a list",
        "'-H' is no address", "kind 'telnet'", "'a/b' is no name of a secret", "which ipmitool does not see",
        "must have address, kind and login", "allow.yaml:7:5: a BMC must be"}) {
    INFO(part << " in " << wrong.status());
    CHECK(Says(wrong.status(), part));
  }
}

TEST_CASE("an allow-list that others can write is not believed") {
  TempDir dir;
  std::string path = dir / "allow.yaml";
  CHECK(Says(AllowList::Load(path)->Executable("sh").status(), path));  // absent: allows nothing
  REQUIRE(AtomicWriteFile(path, "version: 1\nexecutables: {sh: /bin/sh}\n", 0644).ok());
  CHECK(AllowList::Load(path).ok());
  for (mode_t mode : {0664u, 0646u, 0666u}) {
    REQUIRE(chmod(path.c_str(), mode) == 0);
    CHECK(Says(AllowList::Load(path).status(), "can be written by others"));
  }
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  REQUIRE(symlink(path.c_str(), (dir / "link").c_str()) == 0);
  CHECK_FALSE(AllowList::Load(dir / "link").ok());
  if (geteuid() == 0) {
    REQUIRE(chown(path.c_str(), 12345, 0) == 0);
    CHECK(Says(AllowList::Load(path).status(), "belongs to user 12345"));
  }
}

TEST_CASE("secrets come from files that only their owner can read", "[C12]") {
  TempDir dir;
  REQUIRE(MakeDirs(dir / "s", 0700).ok());
  REQUIRE(MakeDirs(dir / "cred", 0700).ok());
  REQUIRE(AtomicWriteFile(dir / "s/hf", "hf_1\n", 0600).ok());
  REQUIRE(AtomicWriteFile(dir / "s/open", "x\n", 0644).ok());
  REQUIRE(AtomicWriteFile(dir / "s/two", "a\nb\n", 0600).ok());
  REQUIRE(AtomicWriteFile(dir / "s/both", "file", 0600).ok());
  REQUIRE(AtomicWriteFile(dir / "cred/both", "credential", 0400).ok());
  Secrets secrets(dir / "s", dir / "cred");
  CHECK(*secrets.Get("hf") == "hf_1");
  CHECK(*secrets.Get("both") == "credential");
  for (const char* bad : {"open", "two", "absent", "../s/hf", "", ".hf", "a/b"})
    CHECK_FALSE(secrets.Get(bad).ok());
  CHECK(Says(secrets.Get("absent").status(), dir / "s/absent"));
  CHECK(secrets.AllValues().size() == 3);
  CHECK_FALSE(Says(secrets.Get("open").status(), "x\n"));
}
