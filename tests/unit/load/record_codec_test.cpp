// Records as lines: written, read back, broken, and read the fast way.
#include "common/load/record_codec.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/base/zstd_file.h"
#include "common/load/record.h"
#include "common/load/record_scan.h"
#include "tests/support/temp_dir.h"

namespace poolmark::load {

namespace {
RequestRecord FullRecord() {
  RequestRecord record;
  record.session = 12;
  record.turn = 3;
  record.session_id = "s\"1\n\xff";
  record.agent = "agent_001";
  record.primer = true;
  record.target = 1;
  record.intended = 1000;
  record.started = 1100;
  record.sent = 1200;
  record.connect = 77;
  record.first_byte = 2000;
  record.first_output = 3000;
  record.first_answer_output = 3500;
  record.last_output = 9000;
  record.end = 9100;
  record.kernel_first_output = 2990;
  record.kernel_last_output = 8990;
  record.lateness = 10;
  record.events = {{3000, 2}, {3500, 1}, {9000, 4}};
  record.planned_input_tokens = 100;
  record.input_tokens = 101;
  record.cached_tokens = 64;
  record.output_tokens = 7;
  record.first_event_tokens = 2;
  record.event_tokens_known = true;
  record.outcome = Outcome::kErrorEvent;
  record.http_status = 200;
  record.attempts = 2;
  record.error = "died";
  record.finish_reason = "stop";
  return record;
}
}  // namespace

TEST_CASE("a record reads back as it was written", "[F2]") {
  const poolmark::test::TempDir dir;
  RequestRecord odd = FullRecord();
  RequestRecord bare;
  bare.outcome = Outcome::kConnect;
  std::string text;
  AppendRecord(odd, &text);
  AppendRecord(bare, &text);
  auto writer = ZstdWriter::Create(dir / "r.jsonl.zst");
  REQUIRE((*writer)->Write(text).ok());
  REQUIRE((*writer)->Finish().ok());
  const auto records = ReadRecords(dir / "r.jsonl.zst");
  INFO(records.status());
  REQUIRE(records.ok());
  REQUIRE(records->size() == 2);
  odd.session_id = "s\"1\n\xef\xbf\xbd";  // invalid UTF-8 is replaced
  CHECK((*records)[0] == odd);
  CHECK((*records)[1] == bare);
}

TEST_CASE("broken record lines are refused with their place") {
  std::string text;
  AppendRecord(FullRecord(), &text);
  const auto broken = [&](const std::string& from, const std::string& to) {
    std::string line = text;
    const size_t at = line.find(from);
    REQUIRE(at != std::string::npos);
    line.replace(at, from.size(), to);
    const auto record = ParseRecord(line, "f:7");
    INFO(line);
    REQUIRE_FALSE(record.ok());
    CHECK(std::string(record.status().message()).starts_with("f:7"));
  };
  broken("\"error_event\"", "\"unheard\"");
  broken("\"session\":12", "\"session\":-1");
  broken("\"session\":12", "\"session\":\"12\"");
  broken("\"turn\":3", "\"turn\":3.5");
  broken("\"started\":1100", "\"start\":1100");
  broken("\"events\":[3000", "\"events\":[\"x\"");
  broken("\"event_tokens\":[2,", "\"event_tokens\":[");
  broken("\"event_tokens\":[2,", "\"event_tokens\":[4294967296,");
  broken("\"events\":[3000", "\"events\":[9223372036854775807");
  broken("\"events\":[3000", "\"events\":[2305843009213693952");  // 73 years
  broken("\"started\":1100", "\"started\":9223372036854775808");
  broken("\"started\":1100", "\"started\":-2305843009213693952");
  broken("\"last_output\":9000", "\"last_output\":null");
  broken("{", "[");
  RequestRecord silent;
  text.clear();
  AppendRecord(silent, &text);  // it says ok, without any output
  broken("\"outcome\":\"ok\"", "\"outcome\":\"ok\"");
}

namespace {

// Whether both parsers were asked and say the same; a space before a line takes the full one.
bool Agree(const std::string& line) {
  const auto fast = ParseRecord(line, "f:1"), full = ParseRecord(" " + line, "f:1");
  return fast.ok() == full.ok() && (!fast.ok() || *fast == *full);
}

}  // namespace

TEST_CASE("the fast way to read a record gives what the full parser gives", "[F2]") {
  std::vector<std::string> lines;
  RequestRecord plain = FullRecord(), ones = FullRecord(), none;
  plain.session_id = "s-12";
  ones.session_id = "s-13";
  for (OutputEvent& event : ones.events) event.tokens = 1;
  ones.outcome = Outcome::kOk;
  ones.error.clear();
  none.outcome = Outcome::kConnect;
  none.agent = "sub";
  none.primer = true;
  none.sent = -5;
  for (const RequestRecord& record : {plain, ones, none, FullRecord()}) {
    std::string line;
    AppendRecord(record, &line);
    line.pop_back();
    lines.push_back(line);
  }
  RequestRecord read;
  for (size_t i = 0; i < 3; ++i) {
    INFO(lines[i]);
    REQUIRE(ScanRecord(lines[i], &read));
    CHECK(read == *ParseRecord(" " + lines[i], "f:1"));
  }
  CHECK_FALSE(ScanRecord(lines[3], &read));  // a text with escapes
  // Every line cut, and with every byte changed to what a number, a text or a list may hold.
  const std::string bytes = "0159-+.eE,:\"\\[]{}ntx \t\x7f\xc3";
  for (const std::string& line : lines) {
    for (size_t at = 0; at < line.size(); ++at) {
      if (!Agree(line.substr(0, at))) FAIL(line.substr(0, at));
      for (const char byte : bytes) {
        std::string changed = line;
        changed[at] = byte;
        if (!Agree(changed)) FAIL(changed);
        changed = line;
        changed.insert(at, 1, byte);
        if (!Agree(changed)) FAIL(changed);
      }
    }
  }
  // Numbers at the ends of what fits.
  for (const char* number : {"0",
                             "-0",
                             "00",
                             "01",
                             "-1",
                             "2147483647",
                             "2147483648",
                             "4294967295",
                             "4294967296",
                             "999999999999999999",
                             "1000000000000000000",
                             "9223372036854775807",
                             "9223372036854775808",
                             "18446744073709551615",
                             "18446744073709551616",
                             "-9223372036854775808",
                             "-9223372036854775809",
                             "1.0",
                             "1e3",
                             "null",
                             "true"}) {
    for (const std::string& line : lines) {
      for (size_t at = line.find(':'); at != std::string::npos; at = line.find(':', at + 1)) {
        const size_t end = line.find_first_of(",}", at);
        const std::string changed = line.substr(0, at + 1) + number + line.substr(end);
        if (!Agree(changed)) FAIL(changed);
      }
      const std::string events = "\"events\":[";
      std::string changed = line;
      changed.insert(changed.find(events) + events.size(), std::string(number) + ",");
      if (!Agree(changed)) FAIL(changed);
    }
  }
}

}  // namespace poolmark::load
