#include "common/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "common/base/beneath.h"
#include "common/base/digest.h"
#include "common/base/zstd_file.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using poolmark::test::TempDir;

TEST_CASE("a file is replaced whole or not at all", "[K3]") {
  TempDir dir;
  REQUIRE(AtomicWriteFile(dir / "a.json", "one").ok());
  REQUIRE(AtomicWriteFile(dir / "a.json", "two").ok());
  CHECK(*ReadFile(dir / "a.json") == "two");
  CHECK_FALSE(FileExists(dir / "a.json.tmp"));
  CHECK_FALSE(AtomicWriteFile(dir / "missing/a.json", "x").ok());
  // Renamed over it, a device would be a plain file for all of the machine.
  const std::string pipe = dir / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_FALSE(AtomicWriteFile(pipe, "x").ok());
  struct stat there {};
  REQUIRE(stat(pipe.c_str(), &there) == 0);
  CHECK(S_ISFIFO(there.st_mode));
  CHECK_FALSE(FileExists(pipe + ".tmp"));
}

TEST_CASE("only regular files of bounded size are read") {
  TempDir dir;
  REQUIRE(mkfifo((dir / "fifo").c_str(), 0600) == 0);
  CHECK_FALSE(ReadFile(dir / "fifo").ok());
  CHECK_FALSE(ReadFile(dir.path()).ok());
  CHECK_FALSE(ReadFile("/dev/zero").ok());
  REQUIRE(AtomicWriteFile(dir / "big", std::string(100, 'x')).ok());
  CHECK_FALSE(ReadFile(dir / "big", 99).ok());
}

TEST_CASE("a tree is removed without following links out of it") {
  TempDir dir;
  REQUIRE(MakeDirs(dir / "ours/deep/er").ok());
  REQUIRE(MakeDirs(dir / "strangers").ok());
  REQUIRE(AtomicWriteFile(dir / "strangers/keep", "x").ok());
  REQUIRE(symlink((dir / "strangers").c_str(), (dir / "ours/deep/link").c_str()) == 0);
  auto removed = RemoveTree(dir / "ours");
  REQUIRE(removed.ok());
  CHECK(*removed == 4);
  CHECK(FileExists(dir / "strangers/keep"));
  CHECK(*RemoveTree(dir / "ours") == 0);
  CHECK_FALSE(RemoveTree("/").ok());
}

TEST_CASE("lines are read of regular files only, and nothing waits for the writer of a pipe") {
  TempDir dir;
  REQUIRE(mkfifo((dir / "pipe.jsonl.zst").c_str(), 0600) == 0);
  for (const std::string& path : {dir / "pipe.jsonl.zst", dir / "", std::string("/dev/zero")}) {
    CAPTURE(path);
    auto reader = LineReader::Open(path);
    REQUIRE(!reader.ok());
    CHECK(absl::IsInvalidArgument(reader.status()));
  }
}

TEST_CASE("zstd lines survive a round trip and a torn tail is named") {
  TempDir dir;
  auto writer = ZstdWriter::Create(dir / "r.jsonl.zst");
  REQUIRE(writer.ok());
  for (int i = 0; i < 5000; ++i) REQUIRE((*writer)->Write("{\"i\":" + std::to_string(i) + "}\n").ok());
  REQUIRE((*writer)->Finish().ok());
  auto reader = LineReader::Open(dir / "r.jsonl.zst");
  REQUIRE(reader.ok());
  std::string line;
  int count = 0;
  for (;; ++count) {
    auto more = (*reader)->Next(&line);
    REQUIRE(more.ok());
    if (!*more) break;
    REQUIRE(line == "{\"i\":" + std::to_string(count) + "}");
  }
  CHECK(count == 5000);

  std::string whole = *ReadFile(dir / "r.jsonl.zst");
  REQUIRE(AtomicWriteFile(dir / "torn.zst", std::string_view(whole).substr(0, whole.size() / 2)).ok());
  auto torn = LineReader::Open(dir / "torn.zst");
  REQUIRE(torn.ok());
  Status end = absl::OkStatus();
  for (;;) {
    auto more = (*torn)->Next(&line);
    if (!more.ok()) {
      end = more.status();
      break;
    }
    REQUIRE(*more);
  }
  CHECK(std::string(end.message()).find("torn.zst:") != std::string::npos);
}

TEST_CASE("SHA-256 gives the published value", "[K7]") {
  CHECK(Sha256Hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(Sha256Hex("abc", 12) == "ba7816bf8f01");
}

TEST_CASE("the digest of a file is that of its content, also through links, and waits for no pipe") {
  TempDir dir;
  REQUIRE(AtomicWriteFile(dir / "blob", "abc").ok());
  REQUIRE(symlink("blob", (dir / "link").c_str()) == 0);
  REQUIRE(symlink("link", (dir / "again").c_str()) == 0);
  REQUIRE(symlink("gone", (dir / "dangling").c_str()) == 0);
  REQUIRE(mkfifo((dir / "pipe").c_str(), 0600) == 0);
  for (const char* name : {"blob", "link", "again"})
    CHECK(Sha256OfFile(dir / name).value() == Sha256Hex("abc"));
  CHECK(Sha256OfFile(dir / "dangling").status().code() == absl::StatusCode::kNotFound);
  for (const std::string& path : {dir / "pipe", dir.path()})
    CHECK(Sha256OfFile(path).status().code() == absl::StatusCode::kInvalidArgument);
}

// Both ways, as an engine could try them: systemd's RestrictSUIDSGID answers ENOSYS to the kernel's own.
TEST_CASE("no path leads out of a directory, with openat2 and without") {
  TempDir dir;
  REQUIRE(MakeDirs(dir / "root/sub/deep").ok());
  REQUIRE(AtomicWriteFile(dir / "root/sub/file", "inside").ok());
  REQUIRE(AtomicWriteFile(dir / "outside", "outside").ok());
  REQUIRE(symlink(dir.path().c_str(), (dir / "root/up").c_str()) == 0);
  REQUIRE(symlink("file", (dir / "root/sub/link").c_str()) == 0);
  const int root = open((dir / "root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(root >= 0);
  auto by = GENERATE(&OpenBeneath, &WalkBeneath);
  auto try_open = [&](const std::string& path, int flags = O_RDONLY | O_NONBLOCK) {
    const int fd = by(root, path, flags, 0600);
    const int why = errno;
    if (fd >= 0) close(fd);
    return fd >= 0 ? 0 : why;
  };
  CHECK(try_open("sub/file") == 0);
  CHECK(try_open("sub//deep/.") == 0);
  CHECK(try_open("sub/new", O_WRONLY | O_CREAT | O_NONBLOCK) == 0);
  CHECK(FileExists(dir / "root/sub/new"));
  CHECK(try_open("sub/none") == ENOENT);
  CHECK(try_open("") == ENOENT);
  CHECK(try_open("sub/file/x") == ENOTDIR);
  CHECK(try_open("../outside") == EXDEV);
  CHECK(try_open("sub/../../outside") == EXDEV);
  CHECK(try_open("/etc/passwd") == EXDEV);
  CHECK(try_open("up/outside") == ELOOP);
  CHECK(try_open("sub/link") == ELOOP);
  CHECK(try_open("up", O_RDONLY | O_DIRECTORY) == ELOOP);
  CHECK(try_open(std::string("sub\0/file", 9)) == EINVAL);
  close(root);
}
