// Parsers of /proc and of cgroup files, the redactor, logs and directories.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "agent/guard/cgroup.h"
#include "agent/guard/directories.h"
#include "agent/guard/log_store.h"
#include "agent/guard/ports.h"
#include "agent/guard/proc.h"
#include "agent/guard/redactor.h"
#include "agent/guard/shared_memory.h"
#include "common/base/files.h"
#include "common/base/random.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::guard;
using poolmark::test::TempDir;

TEST_CASE("a process's stat is read whatever its name") {
  std::string rest = " S 1 2 3 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 1 0 98765 1000 1 18446744073709551615";
  for (const char* name : {"sh", "a b", ") (", "VLLM::EngineCor", "x) S 9 ("}) {
    auto stat = ParseStat("4711 (" + std::string(name) + ")" + rest);
    REQUIRE(stat);
    CHECK(stat->pid == 4711);
    CHECK(stat->command == std::string(name));
    CHECK(stat->state == 'S');
    CHECK(stat->parent == 1);
    CHECK(stat->session == 3);
    CHECK(stat->start_time == 98765);
  }
  for (const char* bad : {"", "4711", "4711 (sh", "4711 (sh) S 1 2", "x (sh) S"}) CHECK_FALSE(ParseStat(bad));
  auto self = ReadStat(getpid());
  REQUIRE(self);
  CHECK(IsAlive(getpid(), self->start_time));
  CHECK_FALSE(IsAlive(getpid(), self->start_time + 1));
  CHECK_FALSE(OpenPid(getpid(), self->start_time + 1));
}

TEST_CASE("the cgroup2 mount is found on pure and on hybrid hosts") {
  CHECK(Cgroup2Mount("30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n") ==
        "/sys/fs/cgroup");
  CHECK(Cgroup2Mount("24 22 0:5 / /proc rw - proc proc rw\n40 30 0:35 / /sys/fs/cgroup/unified rw - cgroup2 "
                     "cgroup2 rw\n") == "/sys/fs/cgroup/unified");
  CHECK(Cgroup2Mount("30 23 0:26 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n").empty());
  CHECK(Cgroup2Mount("").empty());
  CHECK(OwnCgroup("4:memory:/x\n0::/system.slice/poolmark-agent.service\n") ==
        "/system.slice/poolmark-agent.service");
  CHECK(OwnCgroup("4:memory:/x\n").empty());
}

TEST_CASE("listeners of a port are told from connections to it") {
  const char* text =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 "
      "100 0 0 10 0\n"
      "   1: 0100007F:1F40 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4243 1 0 "
      "20 4 0 10 -1\n"
      "   2: 0100007F:1F41 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4244 1 0 "
      "100 0 0 10 0\n"
      "broken line\n";
  CHECK(ParseListeners(text, 8000) == std::set<uint64_t>{4242});
  CHECK(ParseListeners(text, 8002).empty());
  const char* six =
      "  sl  local_address                         remote_address                        st\n"
      "   0: 00000000000000000000000001000000:1F40 00000000000000000000000000000000:0000 0A "
      "00000000:00000000 00:00000000 "
      "00000000     0        0 777 1 0 100 0 0 10 0\n";
  CHECK(ParseListeners(six, 8000) == std::set<uint64_t>{777});
}

TEST_CASE("System V segments are read with their creators") {
  auto segments = ParseSysv(
      "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      "
      "atime      dtime      ctime\n"
      "         0          5  1600               1048576  4711  4711      1     0     0     0     0 1 0 1\n"
      "1234567890          9   600                  4096    12    13      0     0     0     0     0 1 0 1\n"
      "garbage\n");
  REQUIRE(segments.size() == 2);
  CHECK(segments[0].id == 5);
  CHECK(segments[0].creator == 4711);
  CHECK(segments[0].changed == 1);
  CHECK(segments[1].bytes == 4096);
}

TEST_CASE("secrets are taken out of a stream however it is cut") {
  const std::string text = "start hf_SECRET middle hf_SECRETS-end sk-1 hf_SEC rest hf_SECRET";
  const std::string clean = "start [redacted] middle [redacted]S-end [redacted] hf_SEC rest [redacted]";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    Redactor redactor({"sk-1", "", "hf_SECRET"});
    std::string out = redactor.Pass(text.substr(0, cut));
    REQUIRE(out.find("hf_SECRET") == std::string::npos);
    out += redactor.Pass(text.substr(cut));
    out += redactor.Finish();
    REQUIRE(out == clean);
  }
  Redactor bytes({"hf_SECRET"});
  std::string out;
  for (char c : text) out += bytes.Pass(std::string(1, c));
  CHECK(out + bytes.Finish() == "start [redacted] middle [redacted]S-end sk-1 hf_SEC rest [redacted]");
  CHECK(Redactor({""}).idle());
}

TEST_CASE("a log keeps its head and its newest part, and tells what is lost") {
  TempDir dir;
  LogWriter writer;
  REQUIRE(LogWriter::Open(dir.path(), {100, 3}, &writer).ok());
  std::string all;
  SplitMix64 random(1);
  for (int i = 0; i < 200; ++i) {
    std::string piece(random.Below(30), static_cast<char>('a' + i % 26));
    writer.Write(piece);
    all += piece;
  }
  CHECK(writer.offset() == all.size());
  LogReader reader(dir.path());
  REQUIRE(reader.End() == all.size());
  CHECK(reader.Read(0, 1000).data == all.substr(0, 100));
  LogPiece piece = reader.Read(100, 1000);
  CHECK(piece.lost_bytes > 0);
  CHECK(piece.data == all.substr(piece.offset, piece.data.size()));
  uint64_t at = piece.offset;
  std::string tail;
  for (LogPiece next = piece; !next.data.empty(); next = reader.Read(at, 17)) {
    REQUIRE(next.offset == at);
    tail += next.data;
    at += next.data.size();
  }
  CHECK(all.substr(piece.offset) == tail);
  CHECK(ListDir(dir.path())->size() == 3);
  // A process started again goes on behind it.
  LogWriter again;
  REQUIRE(LogWriter::Open(dir.path(), {100, 3}, &again).ok());
  again.Write("again");
  CHECK(reader.Read(all.size(), 10).data == "again");
  CHECK(reader.Read(all.size() + 5, 10).data.empty());
}

TEST_CASE("a log that cannot be written is counted, and blocks nobody") {
  TempDir dir;
  LogWriter writer;
  REQUIRE(LogWriter::Open(dir / ".", {100, 3}, &writer).ok());
  REQUIRE(RemoveTree(dir.path()).ok());
  writer.Write(std::string(250, 'x'));
  CHECK(writer.unwritten_bytes() == 150);
  REQUIRE(MakeDirs(dir.path()).ok());
}

TEST_CASE("paths below a base are plain") {
  std::vector<std::string> parts;
  CHECK(SplitRelative("a/b-c/d.e", &parts).ok());
  CHECK(parts == std::vector<std::string>{"a", "b-c", "d.e"});
  CHECK(SplitRelative("a/b/", &parts).ok());
  for (const std::string& bad : {std::string(""), std::string("/a"), std::string("a//b"), std::string("../a"),
                                 std::string("a/.."), std::string("."), std::string("a\0b", 3)}) {
    INFO(bad);
    CHECK_FALSE(SplitRelative(bad, &parts).ok());
  }
}

TEST_CASE("a directory is removed only if it is the one that was made") {
  TempDir dir;
  MadeDirectory made;
  REQUIRE(MakeDirectory(dir.path(), dir / "kv", 0755, {}, {}, &made).ok());
  CHECK(MakeDirectory(dir.path(), dir / "kv", 0755, {}, {}, &made).code() == "exists");
  REQUIRE(MakeDirs(dir / "kv/deep/er").ok());
  REQUIRE(AtomicWriteFile(dir / "kv/deep/er/block", "x").ok());
  REQUIRE(MakeDirs(dir / "precious").ok());
  REQUIRE(AtomicWriteFile(dir / "precious/file", "x").ok());
  REQUIRE(symlink((dir / "precious").c_str(), (dir / "kv/link").c_str()) == 0);
  RemovedTree other = RemoveDirectory(dir / "kv", MadeDirectory{made.device, made.inode + 1});
  CHECK(other.left.find("is not the directory") != std::string::npos);
  CHECK(FileExists(dir / "kv/deep/er/block"));
  CHECK_FALSE(RemoveDirectory(dir / "kv", std::nullopt).left.empty());  // not known to be ours, and not empty
  RemovedTree gone = RemoveDirectory(dir / "kv", made);
  CHECK(gone.left.empty());
  CHECK(gone.entries == 5);
  CHECK(FileExists(dir / "precious/file"));
  REQUIRE(symlink((dir / "precious").c_str(), (dir / "trap").c_str()) == 0);
  std::vector<std::string> missing;
  CHECK_FALSE(MissingParts(dir.path(), "trap/x", &missing).ok());
  CHECK_FALSE(MakeDirectory(dir.path(), dir / "trap/x", 0755, {}, {}, &made).ok());
}
