#include "agent/telemetry/recorder.h"

#include <catch2/catch.hpp>
#include <map>

using namespace poolmark;
using namespace poolmark::agent;
using std::chrono::seconds;

namespace {

struct Catalogue {
  prom::Series counter, narrow, gauge;
  Catalogue() {
    counter.name = "c";
    narrow.name = "n";
    narrow.width_bits = 32;
    gauge.name = "g";
    gauge.kind = prom::Kind::kGauge;
    gauge.unit = "ratio";
  }
} const kSeries;

Point Of(const prom::Series& series, Measured<double> value, prom::Labels labels = {}) {
  return {series.name, std::move(labels), std::move(value), &series};
}
Reading Page(std::vector<Point> points) {
  Reading reading;
  reading.points = std::move(points);
  return reading;
}

// A reader that keeps the last reading of every series, as the controller does.
struct Reader {
  std::map<uint32_t, std::string> names;
  std::map<uint32_t, v1::SamplePoint> last;
  std::vector<std::string> resets;
  uint64_t sequence = 0;
  int gaps = 0;
  bool ended = false;

  bool Take(Recorder* recorder) {
    const auto batch = recorder->Next(sequence, Nanoseconds(0));
    if (!batch) return false;
    for (const auto& series : batch->series()) {
      CHECK(names.emplace(series.id(), series.name()).second);  // defined once
    }
    for (const auto& round : batch->rounds()) {
      for (const auto& point : round.points()) {
        CHECK(names.count(point.series()) == 1);  // defined before its first point
        last[point.series()] = point;
      }
      for (const auto& reset : round.resets())
        resets.push_back((reset.series() == 0 ? "all: " : names[reset.series()] + ": ") + reset.reason());
    }
    gaps += batch->has_gap();
    ended |= batch->end();
    CHECK(batch->sequence() >= sequence);
    sequence = batch->sequence();
    return true;
  }
  double Value(const std::string& name) const {
    for (const auto& [id, known] : names) {
      if (known == name) return last.at(id).value();
    }
    FAIL("no series " << name);
    return 0;
  }
  std::string Missing(const std::string& name) const {
    for (const auto& [id, known] : names) {
      if (known == name) return last.at(id).not_measured();
    }
    return "";
  }
};

}  // namespace

TEST_CASE("only what changed is sent, all of it in the first round", "[C23]") {
  Recorder recorder(1 << 20);
  const size_t stream = recorder.AddStream("engine");
  recorder.Add(stream, seconds(1), seconds(101), seconds(0),
               Page({Of(kSeries.counter, 5.0), Of(kSeries.gauge, 0.5, {{"k", "v"}})}));
  recorder.Add(stream, seconds(2), seconds(102), seconds(0),
               Page({Of(kSeries.counter, 6.0), Of(kSeries.gauge, 0.5, {{"k", "v"}})}));
  auto first = recorder.Next(0, Nanoseconds(0));
  REQUIRE(first);
  REQUIRE(first->rounds_size() == 2);  // what is waiting comes together
  CHECK(first->sequence() == 2);
  CHECK(first->rounds(0).points_size() == 2);
  CHECK(first->rounds(1).points_size() == 1);
  CHECK(first->rounds(1).points(0).value() == 6);
  CHECK(first->rounds(0).source() == "engine");
  CHECK(first->rounds(0).wall_ns() == 101'000'000'000);
  REQUIRE(first->series_size() == 2);
  CHECK(first->series(1).unit() == "ratio");
  CHECK(first->series(1).kind() == "gauge");
  CHECK(first->series(1).labels(0).value() == "v");
  CHECK_FALSE(recorder.Next(2, Nanoseconds(0)));
  // resumable: the same again
  CHECK(recorder.Next(0, Nanoseconds(0))->rounds_size() == 2);
  CHECK(recorder.Next(1, Nanoseconds(0))->rounds_size() == 1);
}

TEST_CASE("a series that vanishes, or has no number, is not measured; zero is a reading", "[F22]") {
  Recorder recorder(1 << 20);
  const size_t stream = recorder.AddStream("engine");
  recorder.Add(stream, seconds(1), seconds(1), seconds(0),
               Page({Of(kSeries.counter, 0.0), Of(kSeries.gauge, NotMeasured{"refused"})}));
  Reader reader;
  reader.Take(&recorder);
  CHECK(reader.Value("c") == 0);
  CHECK(reader.Missing("g") == "refused");
  recorder.Add(stream, seconds(2), seconds(2), seconds(0), Page({Of(kSeries.gauge, 0.25)}));
  reader.Take(&recorder);
  CHECK(reader.Missing("c") == "no longer exposed");
  CHECK(reader.Value("g") == 0.25);
}

TEST_CASE("a failed round says why and changes nothing", "[F22]") {
  Recorder recorder(1 << 20);
  const size_t stream = recorder.AddStream("engine");
  recorder.Add(stream, seconds(1), seconds(1), seconds(0), Page({Of(kSeries.counter, 7.0)}));
  Reading failed;
  failed.failure = "connection refused \xff";
  recorder.Add(stream, seconds(2), seconds(2), seconds(0), failed);
  recorder.Add(stream, seconds(3), seconds(3), seconds(0), Page({Of(kSeries.counter, 7.0)}));
  const auto batch = recorder.Next(0, Nanoseconds(0));
  REQUIRE(batch->rounds_size() == 3);
  CHECK(batch->rounds(1).failure().find("connection refused") == 0);
  CHECK(batch->rounds(1).points_size() == 0);
  CHECK(batch->rounds(2).points_size() == 0);
}

TEST_CASE("a level does not stand while its page cannot be read, a counter goes on", "[F22]") {
  Recorder recorder(1 << 20);
  const size_t stream = recorder.AddStream("p");
  const auto add = [&](double at, const Reading& reading) {
    recorder.Add(stream, Nanoseconds(static_cast<int64_t>(at)), Nanoseconds(0), Nanoseconds(0), reading);
  };
  Reading failed;
  failed.failure = "connection refused";
  const Reading page = Page({Of(kSeries.gauge, 0.5), Of(kSeries.counter, 7.0)});
  Reader reader;
  add(1, page);
  add(2, failed);
  add(3, failed);
  while (reader.Take(&recorder)) continue;
  CHECK(reader.Missing("g") == "connection refused");
  CHECK(reader.Value("c") == 7);
  add(4, page);  // the same value as before, told anew
  while (reader.Take(&recorder)) continue;
  CHECK(reader.Value("g") == 0.5);
}

TEST_CASE("restarts: a counter that fell, and a changed identity", "[I3]") {
  Recorder recorder(1 << 20);
  const size_t stream = recorder.AddStream("engine");
  const auto with_identity = [](Reading reading, const std::string& value) {
    reading.identity.emplace_back("process_start_time_seconds", value);
    return reading;
  };
  Reader reader;
  recorder.Add(stream, seconds(1), seconds(1), seconds(0),
               with_identity(Page({Of(kSeries.counter, 812.0), Of(kSeries.gauge, 1.0)}), "1"));
  recorder.Add(stream, seconds(2), seconds(2), seconds(0),
               with_identity(Page({Of(kSeries.counter, 3.0), Of(kSeries.gauge, 0.1)}), "1"));
  reader.Take(&recorder);
  REQUIRE(reader.resets.size() == 1);  // the gauge may fall
  CHECK(reader.resets[0] == "c: value fell from 812 to 3");
  // a restart that shows in no value
  recorder.Add(stream, seconds(3), seconds(3), seconds(0),
               with_identity(Page({Of(kSeries.counter, 900.0)}), "2"));
  reader.Take(&recorder);
  REQUIRE(reader.resets.size() == 2);
  CHECK(reader.resets[1] == "all: process_start_time_seconds changed from 1 to 2");
  // with a changed identity the fallen counters are not named one by one
  recorder.Add(stream, seconds(4), seconds(4), seconds(0),
               with_identity(Page({Of(kSeries.counter, 1.0)}), "3"));
  reader.Take(&recorder);
  CHECK(reader.resets.size() == 3);
  // missing in between does not hide a fall
  recorder.Add(stream, seconds(5), seconds(5), seconds(0),
               with_identity(Page({Of(kSeries.counter, NotMeasured{"x"})}), "3"));
  recorder.Add(stream, seconds(6), seconds(6), seconds(0),
               with_identity(Page({Of(kSeries.counter, 0.0)}), "3"));
  while (reader.Take(&recorder)) {
  }
  CHECK(reader.resets.size() == 4);
}

TEST_CASE("a counter of 32 bits that wraps goes on; one of 64 bits that falls is a restart", "[I3]") {
  Recorder recorder(1 << 20);
  const size_t stream = recorder.AddStream("node");
  Reader reader;
  recorder.Add(stream, seconds(1), seconds(1), seconds(0),
               Page({Of(kSeries.narrow, 4294967290.0), Of(kSeries.counter, 4294967290.0)}));
  recorder.Add(stream, seconds(2), seconds(2), seconds(0),
               Page({Of(kSeries.narrow, 10.0), Of(kSeries.counter, 10.0)}));
  while (reader.Take(&recorder)) {
  }
  CHECK(reader.Value("n") == 4294967306.0);
  REQUIRE(reader.resets.size() == 1);
  CHECK(reader.resets[0].rfind("c: ", 0) == 0);
  recorder.Add(stream, seconds(3), seconds(3), seconds(0), Page({Of(kSeries.narrow, 11.0)}));
  reader.Take(&recorder);
  CHECK(reader.Value("n") == 4294967307.0);
  // a small value that falls is a restart in 32 bits too
  recorder.Add(stream, seconds(4), seconds(4), seconds(0), Page({Of(kSeries.narrow, 2.0)}));
  while (reader.Take(&recorder)) {
  }
  CHECK(reader.Value("n") == 2);
  CHECK(reader.resets.size() == 2);
}

TEST_CASE("a reader that falls behind gets a gap and the state at its end", "[C23]") {
  Recorder recorder(4096);  // a dozen batches
  const size_t stream = recorder.AddStream("engine");
  Reader slow, early;
  recorder.Add(stream, seconds(0), seconds(0), seconds(0),
               Page({Of(kSeries.counter, 1.0), Of(kSeries.gauge, 0.75)}));
  early.Take(&recorder);  // knows the definitions already
  for (int i = 2; i <= 500; ++i) {
    recorder.Add(stream, seconds(i), seconds(i), seconds(0),
                 Page({Of(kSeries.counter, static_cast<double>(i)), Of(kSeries.gauge, 0.75)}));
  }
  const auto gap = recorder.Next(0, Nanoseconds(0));
  REQUIRE(gap);
  REQUIRE(gap->has_gap());
  CHECK(gap->gap().from_sequence() == 1);
  CHECK(gap->gap().to_sequence() == gap->sequence());
  CHECK_FALSE(gap->gap().reason().empty());
  for (Reader* reader : {&slow, &early}) {
    while (reader->Take(&recorder)) {
    }
    CHECK(reader->gaps == 1);
    CHECK(reader->sequence == 500);
    CHECK(reader->Value("c") == 500);
    CHECK(reader->Value("g") == 0.75);  // unchanged since a batch that was lost
    CHECK(reader->resets.empty());
  }
}

TEST_CASE("labels without end do not fill the memory", "[C23]") {
  Recorder recorder(1 << 20);
  const size_t stream = recorder.AddStream("engine");
  std::vector<Point> points;
  for (int i = 0; i < 5'005; ++i) points.push_back(Of(kSeries.counter, 1.0, {{"id", std::to_string(i)}}));
  recorder.Add(stream, seconds(1), seconds(1), seconds(0), Page(std::move(points)));
  const auto batch = recorder.Next(0, Nanoseconds(0));
  CHECK(batch->series_size() == 5'000);
  CHECK(batch->rounds(0).failure().find("5000") != std::string::npos);
}

TEST_CASE("a page that repeats a series counts the first") {
  Recorder recorder(1 << 20);
  const size_t stream = recorder.AddStream("engine");
  recorder.Add(stream, seconds(1), seconds(1), seconds(0),
               Page({Of(kSeries.counter, 5.0), Of(kSeries.counter, 4.0)}));
  Reader reader;
  reader.Take(&recorder);
  CHECK(reader.Value("c") == 5);
  CHECK(reader.resets.empty());
}

TEST_CASE("after the end all that was recorded comes first, then the end") {
  Recorder recorder(1 << 20);
  const size_t stream = recorder.AddStream("engine");
  recorder.Add(stream, seconds(1), seconds(1), seconds(0), Page({Of(kSeries.counter, 5.0)}));
  recorder.End();
  Reader reader;
  CHECK(reader.Take(&recorder));
  CHECK_FALSE(reader.ended);
  CHECK(reader.Take(&recorder));
  CHECK(reader.ended);
  CHECK(reader.sequence == recorder.last_sequence());
}
