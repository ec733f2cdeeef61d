#include "common/stats/attribution.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "common/stats/dialects.h"

namespace poolmark::stats {
namespace {

// Makes the parts add up to the prompt tokens: what is missing is not attributed, never computed; what is
// too much (two counting moments, M7) is cut from the parts in proportion and kept as the closure error.
void Close(TokenSources* sources, double* over) {
  const double parts = sources->reused() + sources->computed + sources->not_attributed;
  const double rest = sources->prompt - parts;
  if (rest >= 0) {
    sources->not_attributed += rest;
    return;
  }
  *over = -rest;
  const double surplus = std::min(sources->not_attributed, -rest);
  sources->not_attributed -= surplus;
  const double kept = sources->reused() + sources->computed;
  if (kept <= sources->prompt || kept <= 0) return;
  const double scale = sources->prompt / kept;
  for (double* part :
       {&sources->gpu, &sources->host, &sources->storage, &sources->remote, &sources->computed})
    *part *= scale;
}

}  // namespace

void TokenSources::Add(const TokenSources& other) {
  prompt += other.prompt;
  gpu += other.gpu;
  host += other.host;
  storage += other.storage;
  remote += other.remote;
  computed += other.computed;
  not_attributed += other.not_attributed;
}

EngineAttribution AttributeEngine(const EngineFacts& facts) {
  EngineAttribution out;
  out.process = facts.process;
  out.machine = facts.machine;
  out.engine_cache_label = !facts.has_gpu;
  if (!facts.unreadable.empty()) {
    out.sources = NotMeasured{facts.unreadable};
    return out;
  }
  if (facts.reset) {
    out.sources = NotMeasured{"a counter went backwards"};
    return out;
  }
  for (const auto& [series, change] : facts.deltas) {
    if (change < 0) {
      out.sources = NotMeasured{series + " fell by " + CountText(-change)};
      return out;
    }
  }
  DialectReader reader(facts, &out);
  auto sources = reader.Read();
  if (!sources.has_value()) {
    out.sources = sources;
    return out;
  }
  if (facts.role == EngineFacts::Role::kDecode) {
    reader.ReadDecodeSide(*sources);
    out.sources = NotMeasured{"a decode engine: its prompts are counted where they are prefilled"};
    return out;
  }
  TokenSources closed = *sources;
  Close(&closed, &out.over);
  if (out.over > 0) {
    out.notes.push_back("the sources exceed the prompt tokens by " + CountText(out.over) +
                        ": counted at other moments");
  }
  out.sources = closed;
  return out;
}

Attribution Attribute(const std::vector<EngineFacts>& engines, std::optional<double> client_prompt_tokens) {
  Attribution out;
  out.complete = !engines.empty();
  TokenSources total;
  double over = 0;
  bool any = false;
  std::string missing;
  for (const EngineFacts& facts : engines) {
    EngineAttribution engine = AttributeEngine(facts);
    if (facts.role != EngineFacts::Role::kDecode) {
      if (engine.sources.has_value()) {
        any = true;
        total.Add(*engine.sources);
        over += engine.over - ((*engine.sources).not_attributed);
      } else {
        out.complete = false;
        missing += (missing.empty() ? "" : "; ") + facts.process + ": " + engine.sources.reason();
      }
    }
    for (const std::string& note : engine.notes) out.notes.push_back(facts.process + ": " + note);
    out.engines.push_back(std::move(engine));
  }
  if (!any) {
    out.total = NotMeasured{engines.empty() ? "no engine gave counters" : missing};
    out.closure_error = NotMeasured{"no token sources"};
    out.client_difference = NotMeasured{"no token sources"};
    return out;
  }
  // Engines that could not be read: the client knows how many prompt tokens there were in all.
  if (!out.complete && client_prompt_tokens && *client_prompt_tokens > total.prompt) {
    const double unread = *client_prompt_tokens - total.prompt;
    out.notes.push_back("prompt tokens of engines that were not read, by the client's count: " +
                        CountText(unread) + " (" + missing + ")");
    total.prompt += unread;
    total.not_attributed += unread;
  } else if (!out.complete) {
    out.notes.push_back("not all engines were read: " + missing);
  }
  out.total = total;
  if (total.prompt > 0) {
    out.closure_error = over / total.prompt;
  } else {
    out.closure_error = NotMeasured{"no prompt tokens"};
  }
  if (!client_prompt_tokens) {
    out.client_difference = NotMeasured{"not every request reported its prompt tokens"};
  } else if (*client_prompt_tokens <= 0) {
    out.client_difference = NotMeasured{"no prompt tokens"};
  } else {
    const double difference = (total.prompt - *client_prompt_tokens) / *client_prompt_tokens;
    out.client_difference = difference;
    if (std::abs(difference) > 0.02) {
      char text[160];
      std::snprintf(text, sizeof text, "the engines counted %.15g prompt tokens, the client %.15g (%+.1f %%)",
                    total.prompt, *client_prompt_tokens, difference * 100);
      out.notes.push_back(text);
    }
  }
  return out;
}

const std::vector<std::string>& KnownDialects() {
  static const std::vector<std::string> dialects = {"vllm", "sglang", "trtllm", "llama-cpp", "sim"};
  return dialects;
}

}  // namespace poolmark::stats
