#include "common/workload/trace.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "common/base/zstd_file.h"
#include "common/workload/trace_lines.h"

namespace poolmark::workload {
namespace {

constexpr size_t kMaxTraceLine = 16u << 20;  // a million block ids and more

uint32_t BlockTokens(TraceFormat format, std::optional<int64_t> given) {
  if (format == TraceFormat::kMooncake) return static_cast<uint32_t>(given.value_or(512));
  if (format == TraceFormat::kQwenBailian) return static_cast<uint32_t>(given.value_or(16));
  return 0;
}

Status CheckBlocks(const TraceLine& line, uint32_t block_tokens, const std::string& where) {
  if (block_tokens == 0) return absl::OkStatus();
  const int64_t wanted = (line.input_tokens + block_tokens - 1) / block_tokens;
  if (static_cast<int64_t>(line.blocks.size()) == wanted) return absl::OkStatus();
  return InvalidInput(where,
                      "hash_ids has " + std::to_string(line.blocks.size()) + " blocks, " +
                          std::to_string(line.input_tokens) + " tokens in blocks of " +
                          std::to_string(block_tokens) + " make " + std::to_string(wanted),
                      "give the trace's own block size with block_tokens");
}

class TraceWorkload final : public Workload {
 public:
  TraceWorkload(const WorkloadSpec& spec, Trace trace)
      : spec_(spec),
        trace_(std::move(trace)),
        root_(MixKey(MixKey(spec.seed, spec.marker), std::string_view("trace"))),
        speedup_(spec.speedup.empty() ? 1.0 : spec.speedup.front()) {}

  uint64_t sessions() const override { return trace_.requests.size(); }
  uint32_t natural_block_tokens() const override {
    return trace_.block_tokens == 0
               ? 0
               : static_cast<uint32_t>(ScaleTokens(trace_.block_tokens, spec_.token_scale));
  }

  Script Open(uint64_t number) const override {
    const TraceRequest& request = trace_.requests[number];
    Script script;
    script.id = (request.chat == 0 ? "r" : trace_.chats[request.chat] + "-r") + std::to_string(number);
    Turn turn;
    turn.at = Nanoseconds(std::llround(static_cast<double>(request.at.count()) / speedup_));
    turn.output_tokens = ScaleTokens(std::max(request.output_tokens, 1u), spec_.token_scale);
    if (trace_.block_tokens == 0) {
      turn.prompt.push_back({MixKey(root_, number),
                             static_cast<uint32_t>(ScaleTokens(request.input_tokens, spec_.token_scale))});
    } else {
      turn.prompt.reserve(request.block_count);
      int64_t left = request.input_tokens;
      for (uint32_t i = 0; i < request.block_count; ++i) {
        const int64_t tokens = std::min<int64_t>(left, trace_.block_tokens);
        left -= tokens;
        turn.prompt.push_back({MixKey(root_, trace_.blocks[request.first_block + i]),
                               static_cast<uint32_t>(ScaleTokens(tokens, spec_.token_scale))});
      }
    }
    script.turns.push_back(std::move(turn));
    return script;
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    if (trace_.block_tokens == 0) {
      notes.push_back(
          "The trace does not say which prompts are equal: every prompt is its own, nothing is reusable.");
    }
    const auto empty = std::count_if(trace_.requests.begin(), trace_.requests.end(),
                                     [](const TraceRequest& request) { return request.output_tokens == 0; });
    if (empty > 0) {
      notes.push_back(
          std::to_string(empty) +
          " requests without output in the trace ask for 1 token of it, as an engine must write one.");
    }
    if (trace_.failed > 0) {
      notes.push_back(std::to_string(trace_.failed) +
                      " requests that failed when the trace was recorded are left out.");
    }
    return notes;
  }

 private:
  WorkloadSpec spec_;
  Trace trace_;
  uint64_t root_;
  double speedup_;
};

}  // namespace

Result<Trace> ReadTrace(const std::string& path, TraceFormat format, std::optional<int64_t> block_tokens,
                        std::optional<int64_t> limit) {
  POOLMARK_ASSIGN_OR_RETURN(auto lines, LineReader::Open(path, kMaxTraceLine));
  std::unordered_map<std::string, uint32_t> chats;
  TraceLineReader reader(format, path);
  Trace trace;
  trace.block_tokens = BlockTokens(format, block_tokens);
  std::string text;
  std::optional<Nanoseconds> start;
  Nanoseconds before{0};
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(const bool more, lines->Next(&text));
    if (!more) break;
    POOLMARK_ASSIGN_OR_RETURN(const auto line, reader.Read(text, lines->line_number()));
    if (!line) continue;
    const std::string where = path + ":" + std::to_string(lines->line_number());
    if (start && line->at < before) {
      return InvalidInput(
          where,
          "time runs backwards: " + std::to_string(static_cast<double>((line->at - *start).count()) / 1e9) +
              " s after the first request, the line before is at " +
              std::to_string(static_cast<double>((before - *start).count()) / 1e9) + " s",
          "sort the trace by time");
    }
    if (!start) start = line->at;
    before = line->at;
    if (line->failed) {
      ++trace.failed;
      continue;
    }
    POOLMARK_RETURN_IF_ERROR(CheckBlocks(*line, trace.block_tokens, where));
    if (trace.blocks.size() + line->blocks.size() > kMaxTraceBlocks ||
        trace.requests.size() >= kMaxTraceRequests) {
      return InvalidInput(where,
                          "the trace has more than " + std::to_string(kMaxTraceBlocks) + " blocks or " +
                              std::to_string(kMaxTraceRequests) + " requests",
                          "read a part of it with limit");
    }
    uint32_t chat = 0;
    if (!line->chat.empty()) {
      const auto [known, added] = chats.try_emplace(line->chat, static_cast<uint32_t>(trace.chats.size()));
      if (added) trace.chats.push_back(line->chat);
      chat = known->second;
    }
    trace.requests.push_back({line->at - *start, static_cast<uint32_t>(line->input_tokens),
                              static_cast<uint32_t>(line->output_tokens), trace.blocks.size(),
                              static_cast<uint32_t>(line->blocks.size()), chat});
    trace.blocks.insert(trace.blocks.end(), line->blocks.begin(), line->blocks.end());
    if (limit && trace.requests.size() >= static_cast<uint64_t>(*limit)) break;
  }
  if (trace.requests.empty())
    return InvalidInput(path, "holds no request", "is it a " + std::string(Name(format)) + " trace?");
  return trace;
}

std::unique_ptr<Workload> MakeTrace(const WorkloadSpec& spec, Trace trace) {
  return std::make_unique<TraceWorkload>(spec, std::move(trace));
}

}  // namespace poolmark::workload
