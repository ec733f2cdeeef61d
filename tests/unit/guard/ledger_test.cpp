#include "agent/guard/ledger.h"

#include <catch2/catch.hpp>

#include "agent/guard/items.h"
#include "common/base/files.h"
#include "common/base/random.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::guard;
using poolmark::test::TempDir;

namespace {

std::vector<Record> SomeRun() {
  return {Record("run").Add("run", "job-e1-aa").Add("job", "job").Add("epoch", 1).Add("boot", "b"),
          Record("intend").Add("n", 1).Add("kind", "directory").Add("name", "/w/job"),
          Record("made").Add("n", 1).Add("device", 1).Add("inode", 2),
          Record("intend").Add("n", 2).Add("kind", "process").Add("name", "engine-0").Add("request", "r1"),
          Record("made").Add("n", 2).Add("pid", 10).Add("start", 20),
          Record("exit").Add("n", 2).Add("code", 0),
          Record("teardown").Add("cause", "done").Add("keep", 0),
          Record("gone").Add("n", 2).Add("state", "gone").Add("proof", "no such process"),
          Record("gone").Add("n", 1).Add("state", "gone").Add("proof", "path absent"),
          Record("torn_down").Add("clean", 1).Add("left", 0)};
}

std::string WriteRun(const std::string& path) {
  Ledger ledger;
  REQUIRE(ledger.Open(path).ok());
  for (const Record& record : SomeRun()) REQUIRE(ledger.Append(record).ok());
  return *ReadFile(path);
}

}  // namespace

TEST_CASE("a ledger reads back what was appended and is locked while it is written") {
  TempDir dir;
  std::string path = dir / "ledger";
  {
    Ledger ledger;
    REQUIRE(ledger.Open(path).ok());
    CHECK(LedgerIsLocked(path));
    Ledger second;
    CHECK(second.Open(path).code() == "busy");
    REQUIRE(ledger.Append(SomeRun()).ok());
  }
  CHECK_FALSE(LedgerIsLocked(path));
  LedgerContent content = ReadLedger(path);
  CHECK(content.damages.empty());
  CHECK_FALSE(content.torn_tail);
  CHECK(content.records == SomeRun());
}

TEST_CASE("a ledger cut at any byte keeps all whole lines, and can be written on", "[live]") {
  TempDir dir;
  std::string whole = WriteRun(dir / "ledger");
  for (size_t length = 0; length <= whole.size(); ++length) {
    std::string path = dir / "cut";
    REQUIRE(AtomicWriteFile(path, whole.substr(0, length)).ok());
    LedgerContent content = ReadLedger(path);
    size_t lines =
        static_cast<size_t>(std::count(whole.begin(), whole.begin() + static_cast<long>(length), '\n'));
    REQUIRE(content.records.size() == lines);
    REQUIRE(content.torn_tail == (length > 0 && whole[length - 1] != '\n'));
    // Only a ledger without its head is damaged; a torn tail announced nothing that was begun.
    REQUIRE(content.damages.empty() == (lines > 0));
    Ledger ledger;
    REQUIRE(ledger.Open(path).ok());
    REQUIRE(ledger.Append(Record("epoch").Add("epoch", 2)).ok());
    LedgerContent after = ReadLedger(path);
    REQUIRE(after.records.size() == lines + 1);
    REQUIRE_FALSE(after.torn_tail);
  }
}

TEST_CASE("any flipped bit is seen and named by file and line", "[live]") {
  TempDir dir;
  std::string whole = WriteRun(dir / "ledger");
  std::string path = dir / "flipped";
  SplitMix64 random(3);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string text = whole;
    text[at] = static_cast<char>(text[at] ^ (1 << random.Below(8)));
    REQUIRE(AtomicWriteFile(path, text).ok());
    LedgerContent content = ReadLedger(path);
    INFO("byte " << at);
    bool last_line_end = at + 1 == whole.size();
    // Without its line end the last line counts as torn: the verdict is lost, and the run is swept again.
    REQUIRE((content.torn_tail || !content.damages.empty()));
    if (last_line_end) continue;
    size_t line =
        static_cast<size_t>(std::count(whole.begin(), whole.begin() + static_cast<long>(at), '\n')) + 1;
    if (text[at] != '\n' && whole[at] != '\n')
      REQUIRE(content.damages[0] == path + ":" + std::to_string(line) + ": damaged line");
    REQUIRE(content.records.size() >= SomeRun().size() - 2);
  }
}

TEST_CASE("what is no ledger is said to be none") {
  TempDir dir;
  CHECK(ReadLedger(dir / "absent").damages.size() == 1);
  CHECK(ReadLedger(dir.path()).damages.size() == 1);
  REQUIRE(AtomicWriteFile(dir / "zeros", std::string(4096, '\0')).ok());
  CHECK_FALSE(ReadLedger(dir / "zeros").damages.empty());
}

TEST_CASE("the fold of a ledger says what is owed") {
  std::vector<Record> records = SomeRun();
  RunState half = Fold({records.begin(), records.begin() + 5});
  CHECK(half.open_items() == 2);
  CHECK(half.OwedNewestFirst() == std::vector<uint64_t>{2, 1});
  CHECK(half.requests.count("r1") == 1);
  CHECK_FALSE(half.finished);
  RunState whole = Fold(records);
  CHECK(whole.open_items() == 0);
  CHECK(whole.finished);
  CHECK(whole.clean);
  CHECK(whole.cause == "done");
  CHECK(whole.next_number() == 3);
  // Something made after a cycle's end opens the run again.
  records[6] = Record("teardown").Add("cause", "cycle").Add("keep", 1);
  records.push_back(Record("intend").Add("n", 3).Add("kind", "port").Add("name", "8000"));
  RunState next = Fold(records);
  CHECK_FALSE(next.finished);
  CHECK(next.open_items() == 1);
  // A left item stays owed, an unknown word is unknown and never clean.
  records.push_back(Record("gone").Add("n", 3).Add("state", "vanished"));
  CHECK(Fold(records).items.at(3).state == GoneState::kUnknown);
  CHECK(Fold(records).open_items() == 1);
}
