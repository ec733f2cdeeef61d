// One engine dialect's counters as token sources. Internal to attribution.cpp. The formulas are those that
// the engines' own sources imply: vLLM vllm/v1/metrics, SGLang srt/observability, TensorRT-LLM
// metrics/collector.py, LMCache multiprocess server, llama.cpp server-context. Pure; an object serves one
// engine.
#pragma once
#include <optional>
#include <string>

#include "common/stats/attribution.h"

namespace poolmark::stats {

// A count as people write it: no decimals where there are none.
std::string CountText(double value);

class DialectReader {
 public:
  DialectReader(const EngineFacts& facts, EngineAttribution* out) : facts_(facts), out_(*out) {}

  // Parts may not add up yet: AttributeEngine closes them.
  Measured<TokenSources> Read();
  // What a decode engine received, and what it computed again beyond the one token a request that it must.
  void ReadDecodeSide(const TokenSources& sources);

 private:
  Measured<TokenSources> ReadVllm();
  Measured<TokenSources> ReadSglang();
  // Adds the cached tokens to their places; their sum, or nothing where SGLang does not give them.
  std::optional<double> ReadSglangCached(TierPlace storage, TokenSources* sources);
  Measured<TokenSources> ReadTensorRt();
  Measured<TokenSources> ReadLlamaCpp();

  void SplitExternal(double external, TokenSources* sources);
  void SplitUnspecified(double tokens, TokenSources* sources);
  void SplitByCacheServer(double tokens, TokenSources* sources);
  void Place(TierPlace place, double tokens, TokenSources* sources, const std::string& why_not);
  void DoubtExternalAfterFailures(TokenSources* sources);

  // The series with its label suffix; remembers that it was read.
  std::optional<double> Get(const std::string& series);
  std::optional<double> FromCache(const std::string& series);
  void Note(std::string text) { out_.notes.push_back(std::move(text)); }

  const EngineFacts& facts_;
  EngineAttribution& out_;
};

}  // namespace poolmark::stats
