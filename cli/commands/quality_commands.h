// What the commands of `poolmark quality` do once their arguments are known. Each returns the exit code.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace poolmark::cli {

struct QualityRunArguments {
  std::string out;
  std::string reference_url, control_url, candidate_url;
  std::string model, dataset;
  std::string task = "qa";
  std::string scenario = "independent";
  int64_t limit = 200;
  int64_t chunk_size = 256;
  int64_t max_output_tokens = 2048;
  std::vector<std::string> template_kwargs;
  int64_t seed = 42;
  std::string filler;                      // "": dots, or none for concatenated
  std::optional<int64_t> min_unit_tokens;  // nothing: 8 x chunk size, concatenated only
  int64_t reference_repeats = 2;
  std::string blend_metrics_url;
  std::string dataset_file;
  std::string tokenizer, tokenize_url;
  std::string progress = "text";
  std::string output = "text";
  std::string settle = "2s";
  std::string timeout = "10m";
  std::string api_key_file;
  bool resume = false;
};

struct QualityAnalyzeArguments {
  std::string directory;
  std::string metric = "match";
  double tolerance = 0.05;
  double min_blend_share = 0.3;
  double min_reuse_ratio = 0.8;
  std::string judge_url, judge_model, judge_key_file, judge_templates;
  int judge_parallel = 8;
  std::string judge_timeout = "2m";
  std::string output = "text";
};

struct QualityShowArguments {
  std::string directory;
  std::string qid;
  bool all = false;
  bool responses = false;
  std::string output = "text";
};

int RunQualityRun(const QualityRunArguments& arguments);
int RunQualityAnalyze(const QualityAnalyzeArguments& arguments);
int RunQualityShow(const QualityShowArguments& arguments);
// `output` is "text" or "json".
int RunQualityVerify(const std::string& directory, const std::string& output);
int RunQualityCompare(const std::string& a, const std::string& b, const std::string& output);
int RunQualityReport(const std::string& directory, const std::string& out, const std::string& output);

}  // namespace poolmark::cli
