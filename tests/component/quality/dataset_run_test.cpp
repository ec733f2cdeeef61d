// Runs over data sets as people have them: the Hugging Face cache's links, links of their own, files with
// records that cannot be used.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/quality/dataset.h"
#include "tests/component/quality/bench_setup.h"

namespace poolmark::quality {
namespace {

using test::Answering;
using test::FakeEngine;
using test::FakeEngineOptions;
using test::QualityBench;

constexpr char kRevision[] = "0123456789abcdef0123456789abcdef01234567";
constexpr char kOlder[] = "ffffffffffffffffffffffffffffffffffffffff";

// Questions in MuSiQue's shape, a line each.
std::string MusiqueLines(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    Json record = {{"id", "2hop__" + n},
                   {"question", QualityBench::Question(i)},
                   {"answer", "Country" + n},
                   {"answer_aliases", Json::array()},
                   {"answerable", true}};
    record["paragraphs"] = {{{"idx", 0},
                             {"title", "Town" + n},
                             {"paragraph_text", "Town" + n + " is a town in Country" + n + "."},
                             {"is_supporting", true}},
                            {{"idx", 1},
                             {"title", "Notes"},
                             {"paragraph_text", "The mayor of Rivertown likes bread."},
                             {"is_supporting", false}}};
    lines += record.dump() + "\n";
  }
  return lines;
}

// A cache as huggingface_hub lays it out: contents under blobs/, snapshots of relative links into it, the
// revision of main in refs/. An older snapshot has lost its blob.
class HubCache {
 public:
  HubCache(const std::string& root, const std::string& repository) : root_(root + "/hub/" + repository) {
    REQUIRE(MakeDirs(root_ + "/blobs").ok());
    REQUIRE(MakeDirs(root_ + "/refs").ok());
    REQUIRE(AtomicWriteFile(root_ + "/refs/main", kRevision).ok());
    setenv("HF_HUB_CACHE", (root + "/hub").c_str(), 1);
  }
  ~HubCache() { unsetenv("HF_HUB_CACHE"); }
  HubCache(const HubCache&) = delete;
  HubCache& operator=(const HubCache&) = delete;

  // `up`: from the file's directory to the repository's.
  void Add(const std::string& file, const std::string& content, const std::string& up) {
    const std::string blob = Sha256Hex(content);
    REQUIRE(AtomicWriteFile(root_ + "/blobs/" + blob, content).ok());
    Link(kRevision, file, up + "blobs/" + blob);
    Link(kOlder, file, up + "blobs/gone");
  }
  std::string File(const std::string& name) const { return root_ + "/snapshots/" + kRevision + "/" + name; }

 private:
  void Link(const std::string& revision, const std::string& file, const std::string& target) {
    const std::string link = root_ + "/snapshots/" + revision + "/" + file;
    REQUIRE(MakeDirs(link.substr(0, link.rfind('/'))).ok());
    REQUIRE(symlink(target.c_str(), link.c_str()) == 0);
  }
  std::string root_;
};

}  // namespace

TEST_CASE("a known data set runs from the Hugging Face cache, whose snapshots are links", "[K8][K12]") {
  QualityBench bench;
  FakeEngine engine(Answering());
  bench.options.reference_url = engine.url();
  bench.options.reference_repeats = 1;

  SECTION("MuSiQue") {
    HubCache cache(bench.directory().path(), "datasets--dgslibisey--MuSiQue");
    bench.options.settings.dataset = "musique";
    CHECK_THAT(std::string(bench.TryRun().status().message()), Catch::Contains("hf download"));
    const std::string content = MusiqueLines(5);
    cache.Add("musique_ans_v1.0_dev.jsonl", content, "../../");
    CHECK(ResolveDataset("musique").value() == cache.File("musique_ans_v1.0_dev.jsonl"));
    CHECK(bench.Run().saved == std::vector<std::string>{"reference_1"});
    CHECK(engine.measured() == 5);
    CHECK_THAT(bench.notes, Catch::Contains(cache.File("musique_ans_v1.0_dev.jsonl") + " (sha256 " +
                                            Sha256Hex(content, 16) + ")"));
    const Plan plan = Directory(bench.out()).LoadPlan().value().value();
    CHECK(plan.settings.dataset == "musique");
    CHECK(plan.samples.at(4).qid == "2hop__4");
  }
  SECTION("HotpotQA, converted beside its Parquet file") {
    HubCache cache(bench.directory().path(), "datasets--hotpotqa--hotpot_qa");
    bench.options.settings.dataset = "hotpotqa";
    const std::string file = "distractor/validation-00000-of-00001.parquet";
    cache.Add(file, "PAR1", "../../../");
    CHECK_THAT(std::string(bench.TryRun().status().message()),
               Catch::Contains("deploy/quality/parquet-to-jsonl '" + cache.File(file) + "'"));
    REQUIRE(AtomicWriteFile(cache.File(file) + ".jsonl", MusiqueLines(3)).ok());
    bench.Run();
    CHECK(engine.measured() == 3);
  }
  SECTION("a file of one's own, through a link") {
    const std::string link = bench.directory() / "link.json";
    REQUIRE(symlink("dataset.json", link.c_str()) == 0);
    bench.options.settings.dataset = link;
    bench.Run();
    CHECK(engine.measured() == QualityBench::kQuestions);
  }
}

TEST_CASE("records that cannot be used are counted, the first one is named") {
  const char* good = R"({"question": "q", "answer": "a", "ctxs": ["x"]})";
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"7", "is no object"},
      {R"({"question": "q", "answer": "a", "ctxs": []})", "has no passages"},
      {R"({"Question": "q", "answer": "a", "ctxs": ["x"]})", "has no question"},
      {R"({"question": "q", "answers": [], "ctxs": ["x"]})", "has no answer"}};
  for (const auto& [record, why] : bad) {
    INFO(record);
    const std::string list = "[" + std::string(good) + "," + record + "," + record + "]";
    const Dataset dataset = ParseDataset(list, "f", false, 0).value();
    CHECK(dataset.questions.size() == 1);
    CHECK(dataset.skipped_records == 2);
    CHECK(dataset.records() == 3);
    CHECK(dataset.first_skipped == "record 1 " + why);
    CHECK(dataset.sha256 == Sha256Hex(list));
    // Lines are named as editors count them; behind the last question that is asked for nothing is read.
    const std::string lines = record + "\n\n" + good + "\n" + record + "\n";
    CHECK(ParseDataset(lines, "f", true, 0)->first_skipped == "line 1 " + why);
    CHECK(ParseDataset(lines, "f", true, 0)->skipped_records == 2);
    CHECK(ParseDataset(lines, "f", true, 1)->skipped_records == 1);
    CHECK_THAT(std::string(ParseDataset("[" + record + "]", "f", false, 0).status().message()),
               Catch::Contains("record 0 " + why));
  }
  CHECK(ParseDataset("[" + std::string(good) + "]", "f", false, 0)->first_skipped.empty());

  QualityBench bench;
  FakeEngine engine({});
  bench.options.reference_url = engine.url();
  bench.options.settings.dataset = bench.directory() / "some.jsonl";
  REQUIRE(AtomicWriteFile(bench.options.settings.dataset,
                          std::string(good) + "\n" + bad[2].first + "\n" + bad[3].first + "\n")
              .ok());
  bench.Run();
  CHECK_THAT(bench.notes,
             Catch::Contains("warning: 2 of the 3 records that were read cannot be used and were "
                             "skipped (first: line 2 has no question)\n"));
}

}  // namespace poolmark::quality
