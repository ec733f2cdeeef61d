#include "agent/process/launch.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "absl/strings/str_join.h"
#include "agent/process/readiness.h"
#include "agent/process/redis.h"
#include "common/base/files.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::process;
using poolmark::test::TempDir;

namespace {

AllowList Allowed(const std::string& models = "/usr") {
  auto list = AllowList::Parse(
      "version: 1\nexecutables: {sh: /bin/sh, poolmark: /bin/cat}\nimages: [vllm@sha256:aa]\ncontainers: "
      "{docker: "
      "/usr/bin/docker, podman: /usr/bin/podman}\n"
      "mounts: [" +
          models +
          "]\ndevices: [/dev/infiniband, /dev/kfd, /dev/dri]\nsecrets: {hf: [sh], key: [vllm@sha256:aa]}\n",
      "allow.yaml");
  REQUIRE(list.ok());
  return *list;
}

LaunchPlace Place() {
  return {"job-e1-aa", "job", "/srv/job", "/srv/job/tmp/engine", 7, {}, {}};
}

LaunchSpec Container(BackendKind kind) {
  LaunchSpec spec;
  spec.id = "engine";
  spec.backend = kind;
  spec.image = "vllm@sha256:aa";
  spec.argv = {"--model", "m"};
  spec.env = {{"PYTHONHASHSEED", "0"}};
  spec.gpus = {0, 1};
  spec.mounts = {"/usr/share:/model:ro"};
  return spec;
}

bool HasPair(const std::vector<std::string>& argv, const std::string& flag, const std::string& value) {
  for (size_t i = 0; i + 1 < argv.size(); ++i) {
    if (argv[i] == flag && argv[i + 1] == value) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a container gets what it was allowed and no privileges") {
  Secrets secrets("", "");
  auto record = MakeBackend(BackendKind::kDocker)
                    ->Compose(Container(BackendKind::kDocker), Place(), Allowed(), secrets);
  REQUIRE(record.ok());
  std::vector<std::string> argv = record->All("argv");
  INFO(absl::StrJoin(argv, " "));
  CHECK(record->Get("exe") == "/usr/bin/docker");
  CHECK(record->Get("container") == "poolmark-job-e1-aa-engine-7");
  CHECK(HasPair(argv, "--name", "poolmark-job-e1-aa-engine-7"));
  CHECK(HasPair(argv, "--label", "poolmark.run=job-e1-aa"));
  CHECK(HasPair(argv, "--cap-drop", "ALL"));
  CHECK(HasPair(argv, "--security-opt", "no-new-privileges"));
  CHECK(HasPair(argv, "--restart", "no"));
  CHECK(HasPair(argv, "--gpus", "\"device=0,1\""));
  CHECK(HasPair(argv, "--volume", "/usr/share:/model:ro"));
  CHECK(HasPair(argv, "--env", "PYTHONHASHSEED"));
  CHECK(HasPair(argv, "--env", "POOLMARK_RUN"));
  CHECK(std::find(argv.begin(), argv.end(), "--privileged") == argv.end());
  CHECK(std::find(argv.begin(), argv.end(), "--rm") == argv.end());
  CHECK(argv.back() == "m");
  CHECK(argv[argv.size() - 3] == "vllm@sha256:aa");
  std::vector<std::string> env = record->All("env");
  CHECK(std::find(env.begin(), env.end(), "PYTHONHASHSEED=0") != env.end());

  auto podman = MakeBackend(BackendKind::kPodman)
                    ->Compose(Container(BackendKind::kPodman), Place(), Allowed(), secrets);
  REQUIRE(podman.ok());
  CHECK(HasPair(podman->All("argv"), "--device", "nvidia.com/gpu=1"));

  LaunchSpec amd = Container(BackendKind::kDocker);
  amd.gpu_vendor = "amd";
  amd.devices = {"/dev/infiniband/uverbs0"};
  auto rocm = MakeBackend(BackendKind::kDocker)->Compose(amd, Place(), Allowed(), secrets);
  REQUIRE(rocm.ok());
  CHECK(HasPair(rocm->All("argv"), "--device", "/dev/kfd"));
  CHECK(HasPair(rocm->All("argv"), "--cap-add", "IPC_LOCK"));
}

TEST_CASE("an engine on the machine's later GPUs finds them: a container counts its own from 0") {
  Secrets secrets("", "");
  for (const BackendKind kind : {BackendKind::kDocker, BackendKind::kPodman}) {
    LaunchSpec spec = Container(kind);
    spec.gpus = {2, 3};
    spec.env["CUDA_VISIBLE_DEVICES"] = "2,3";
    auto record = MakeBackend(kind)->Compose(spec, Place(), Allowed(), secrets);
    REQUIRE(record.ok());
    const std::vector<std::string> argv = record->All("argv"), env = record->All("env");
    INFO(absl::StrJoin(argv, " ") << " | " << absl::StrJoin(env, " "));
    if (kind == BackendKind::kDocker) {
      CHECK(HasPair(argv, "--gpus", "\"device=2,3\""));
    } else {
      CHECK(HasPair(argv, "--device", "nvidia.com/gpu=2"));
      CHECK(HasPair(argv, "--device", "nvidia.com/gpu=3"));
    }
    CHECK(HasPair(argv, "--env", "CUDA_VISIBLE_DEVICES"));
    CHECK(std::find(env.begin(), env.end(), "CUDA_VISIBLE_DEVICES=0,1") != env.end());
    CHECK(std::find(env.begin(), env.end(), "CUDA_VISIBLE_DEVICES=2,3") == env.end());
  }
  // AMD's are all there, under the machine's numbers.
  LaunchSpec amd = Container(BackendKind::kDocker);
  amd.gpu_vendor = "amd";
  amd.gpus = {2, 3};
  amd.env["HIP_VISIBLE_DEVICES"] = "2,3";
  auto rocm = MakeBackend(BackendKind::kDocker)->Compose(amd, Place(), Allowed(), secrets);
  REQUIRE(rocm.ok());
  const std::vector<std::string> env = rocm->All("env");
  CHECK(std::find(env.begin(), env.end(), "HIP_VISIBLE_DEVICES=2,3") != env.end());
}

TEST_CASE("what a container must not get is refused") {
  Secrets secrets("", "");
  auto refused = [&](auto change) {
    LaunchSpec spec = Container(BackendKind::kDocker);
    change(&spec);
    return !MakeBackend(BackendKind::kDocker)->Compose(spec, Place(), Allowed(), secrets).ok();
  };
  CHECK(refused([](LaunchSpec* spec) { spec->image = "vllm:latest"; }));
  CHECK(refused([](LaunchSpec* spec) { spec->image = "--privileged"; }));
  CHECK(refused([](LaunchSpec* spec) { spec->mounts = {"/etc:/etc"}; }));
  CHECK(refused([](LaunchSpec* spec) { spec->mounts = {"/usr/../etc:/etc"}; }));
  CHECK(refused([](LaunchSpec* spec) { spec->mounts = {"/srv/job/../../etc:/etc"}; }));
  CHECK(refused([](LaunchSpec* spec) { spec->mounts = {"/usr:/m:rw,exec"}; }));
  CHECK(refused([](LaunchSpec* spec) { spec->mounts = {"/var/run/docker.sock:/var/run/docker.sock"}; }));
  CHECK(refused([](LaunchSpec* spec) { spec->devices = {"/dev/mem"}; }));
  CHECK(refused([](LaunchSpec* spec) { spec->env["DOCKER_HOST"] = "tcp://x"; }));
  CHECK(refused([](LaunchSpec* spec) { spec->env["A B"] = "x"; }));
  CHECK(refused([](LaunchSpec* spec) { spec->env["POOLMARK_RUN"] = "x"; }));
}

TEST_CASE("a mount goes through no link that a job could have made") {
  TempDir dir;
  const std::string models = dir / "models", work = dir / "job";
  for (const std::string& made : {models + "/llama", work + "/tmp"}) REQUIRE(MakeDirs(made).ok());
  REQUIRE(AtomicWriteFile(work + "/config.json", "{}").ok());
  for (const auto& [link, target] : {std::pair<std::string, std::string>{work + "/x", "/"},
                                     {work + "/tmp/x", "/etc"},
                                     {models + "/x", "/"},
                                     {models + "/llama/x", "../llama"},
                                     {dir / "place", models}}) {
    REQUIRE(symlink(target.c_str(), link.c_str()) == 0);
  }
  LaunchPlace place = Place();
  place.work_dir = work;
  auto volume = [&](const std::string& mount, const std::string& allowed) -> Result<std::string> {
    LaunchSpec spec = Container(BackendKind::kDocker);
    spec.mounts = {mount};
    auto record = MakeBackend(BackendKind::kDocker)->Compose(spec, place, Allowed(allowed), Secrets("", ""));
    POOLMARK_RETURN_IF_ERROR(record.status());
    std::vector<std::string> argv = record->All("argv");
    std::string last;
    for (size_t i = 0; i + 1 < argv.size(); ++i) {
      if (argv[i] == "--volume") last = argv[i + 1];
    }
    return last;
  };
  auto code = [&](const std::string& mount) { return ErrorOf(volume(mount, models).status()).code; };
  // Of the work directory only the whole: what lies in it can be exchanged until it is mounted.
  CHECK(code(work + "/x:/host") == "not_allowed");
  CHECK(code(work + "/tmp/x:/host") == "not_allowed");
  CHECK(code(work + "/config.json:/config.json:ro") == "not_allowed");
  CHECK(code(work + "/x/etc:/host") == "not_allowed");
  CHECK(*volume(work + ":/work", models) == work + ":/work");
  // Of what the administrator allows, whatever is no link.
  CHECK(*volume(models + "/llama:/m:ro", models) == models + "/llama:/m:ro");
  CHECK(code(models + "/x:/m") == "not_allowed");
  CHECK(code(models + "/x/etc:/m") == "not_allowed");
  CHECK(code(models + "/llama/x:/m") == "not_allowed");
  CHECK(volume(models + "/absent:/m", models).status().code() == absl::StatusCode::kNotFound);
  // The administrator's own link: resolved before the container client sees it.
  CHECK(*volume((dir / "place") + "/llama:/m", dir / "place") == models + "/llama:/m");
  // A directory in which engines may write: as a whole, but nothing in it.
  REQUIRE(chmod(models.c_str(), 0777) == 0);
  CHECK(code(models + "/llama:/m") == "not_allowed");
  CHECK(*volume(models + ":/m", models) == models + ":/m");
  REQUIRE(chmod(models.c_str(), 0755) == 0);
  place.uid = geteuid() + 1;
  place.gid = getegid();
  CHECK(volume(models + "/llama:/m", models).ok());
  REQUIRE(chmod(models.c_str(), 0775) == 0);
  CHECK(code(models + "/llama:/m") == "not_allowed");
}

TEST_CASE("a plain process gets its words as they are and its secrets by environment", "[C12]") {
  TempDir dir;
  REQUIRE(AtomicWriteFile(dir / "hf", "hf_CANARY", 0600).ok());
  LaunchSpec spec;
  spec.id = "engine";
  spec.executable = "sh";
  spec.argv = {"-c", "echo; $(true)", "--flag=--other"};
  spec.secrets = {{"HF_TOKEN", "hf"}};
  spec.ports = {8000};
  auto record =
      MakeBackend(BackendKind::kProcess)->Compose(spec, Place(), Allowed(), Secrets(dir.path(), ""));
  REQUIRE(record.ok());
  CHECK(record->Get("exe") == "/bin/sh");
  CHECK(record->All("argv") == spec.argv);
  CHECK(record->All("secret") == std::vector<std::string>{"HF_TOKEN=hf_CANARY"});
  CHECK(record->Get("port") == "8000");
  for (const std::string& word : record->All("env")) CHECK(word.find("CANARY") == std::string::npos);
  spec.argv = {std::string("a\0b", 3)};
  CHECK_FALSE(MakeBackend(BackendKind::kProcess)->Compose(spec, Place(), Allowed(), Secrets("", "")).ok());
  spec.argv.clear();
  spec.image = "vllm@sha256:aa";
  CHECK_FALSE(
      MakeBackend(BackendKind::kProcess)->Compose(spec, Place(), Allowed(), Secrets(dir.path(), "")).ok());
}

TEST_CASE("other programs' secrets reach only our own programs, and those that are here", "[I12]") {
  TempDir dir;
  REQUIRE(AtomicWriteFile(dir / "hf", "hf_CANARY", 0600).ok());
  LaunchSpec spec;
  spec.id = "router";
  spec.executable = "sh";
  spec.secrets = {{"POOLMARK_REDACT_0", "hf"}, {"POOLMARK_REDACT_1", "absent"}};
  auto compose = [&] {
    auto record =
        MakeBackend(BackendKind::kProcess)->Compose(spec, Place(), Allowed(), Secrets(dir.path(), ""));
    REQUIRE(record.ok());
    return *record;
  };
  // A router is told nothing; the guard takes it out of what the router prints.
  CHECK(compose().All("secret").empty());
  CHECK(compose().All("redact") == std::vector<std::string>{"hf_CANARY"});
  // Whoever says that another program is our load does not get a secret for it that way.
  spec.role = "load";
  CHECK(compose().All("secret").empty());
  for (const char* ours : {"poolmark", "/bin/cat"}) {
    spec.executable = ours;
    CHECK(compose().All("secret") == std::vector<std::string>{"POOLMARK_REDACT_0=hf_CANARY"});
    CHECK(compose().All("redact").empty());
  }
}

TEST_CASE("a secret is given to the programs and images that allow.yaml lists, and to nobody else",
          "[C12][I12]") {
  TempDir dir;
  for (const char* name : {"hf", "key", "bmc"})
    REQUIRE(AtomicWriteFile(dir / name, std::string(name) + "_CANARY", 0600).ok());
  auto compose = [&](const std::string& executable, const std::string& image, const std::string& secret) {
    LaunchSpec spec;
    spec.id = "engine";
    spec.backend = image.empty() ? BackendKind::kProcess : BackendKind::kDocker;
    spec.executable = executable;
    spec.image = image;
    spec.secrets = {{"TOKEN", secret}};
    return MakeBackend(spec.backend)->Compose(spec, Place(), Allowed(), Secrets(dir.path(), ""));
  };
  CHECK(compose("sh", "", "hf").ok());
  CHECK(compose("/bin/sh", "", "hf").ok());
  CHECK(compose("", "vllm@sha256:aa", "key").ok());
  CHECK(compose("sh", "vllm@sha256:aa", "key").ok());  // the image's own sh
  for (const auto& [executable, image, secret] : {std::array<std::string, 3>{"poolmark", "", "hf"},
                                                  {"sh", "", "key"},
                                                  {"sh", "", "bmc"},
                                                  {"sh", "", "absent"},
                                                  {"", "vllm@sha256:aa", "hf"},
                                                  {"sh", "vllm@sha256:aa", "hf"}}) {
    CAPTURE(executable, image, secret);
    const auto refused = compose(executable, image, secret);
    REQUIRE_FALSE(refused.ok());
    const Error error = ErrorOf(refused.status());
    CHECK(error.code == "not_allowed");
    CHECK(error.message.find("secret '" + secret + "' is not given to '") == 0);
    CHECK(error.hint.find("\"  " + secret + ": [") != std::string::npos);
    CHECK(error.hint.find("CANARY") == std::string::npos);
  }
}

TEST_CASE("Redis answers are read, hostile ones refused") {
  auto parse = [](std::string_view text, size_t* used) { return ParseRedisAnswer(text, used); };
  size_t used = 0;
  CHECK(*parse("+PONG\r\n", &used) == "PONG");
  CHECK(used == 7);
  CHECK(*parse(":42\r\n", &used) == "42");
  CHECK(*parse("$3\r\nabc\r\n", &used) == "abc");
  CHECK(*parse("$-1\r\n", &used) == "");
  CHECK(used == 5);
  CHECK(*parse("*2\r\n:1\r\n$1\r\nx\r\n", &used) == "1\nx");
  CHECK_FALSE(parse("-ERR no\r\n", &used).ok());
  CHECK(used > 0);
  for (const char* part : {"", "+PON", "$3\r\nab", "*2\r\n:1\r\n"}) {
    CHECK(parse(part, &used).ok());
    CHECK(used == 0);
  }
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "*1\r\n";
  for (const std::string& bad : {std::string("HTTP/1.1 200 OK\r\n"), std::string("$99999999999\r\n"),
                                 std::string("$x\r\n"), std::string("\r\n"), deep}) {
    auto refused = parse(bad, &used);
    CHECK_FALSE(refused.ok());
    CHECK(used == 0);
  }
}

TEST_CASE("patience lasts three times as long while the log grows") {
  using std::chrono::seconds;
  Patience silent(seconds(10), seconds(0));
  CHECK_FALSE(silent.Over(seconds(9), 0));
  CHECK(silent.Over(seconds(10), 0));
  Patience busy(seconds(10), seconds(0));
  CHECK_FALSE(busy.Over(seconds(10), 5));
  CHECK_FALSE(busy.Over(seconds(19), 5));
  CHECK_FALSE(busy.Over(seconds(20), 6));
  CHECK(busy.Over(seconds(30), 7));
  Patience stuck(seconds(10), seconds(0));
  CHECK_FALSE(stuck.Over(seconds(10), 5));
  CHECK(stuck.Over(seconds(20), 5));
  std::string host;
  uint16_t port = 0;
  CHECK(SplitHostPort("[::1]:80", &host, &port).ok());
  CHECK(host == "::1");
  for (const char* bad : {"", "a", "a:", ":80", "a:0", "a:99999", "a:8x"})
    CHECK_FALSE(SplitHostPort(bad, &host, &port).ok());
}
