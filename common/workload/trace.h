// Public inference traces: Mooncake, Qwen-Bailian, Azure LLM 2023 and 2024, BurstGPT. Read line by line and
// kept compactly (8 bytes a block), so a trace of gigabytes needs a `limit`, not more code.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "common/workload/script.h"
#include "common/workload/spec.h"

namespace poolmark::workload {

struct TraceRequest {
  Nanoseconds at{0};  // from the first request, at recorded speed
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
  uint64_t first_block = 0;  // index into Trace::blocks
  uint32_t block_count = 0;
  std::string chat;  // conversation, where the trace says
};

struct Trace {
  std::vector<TraceRequest> requests;
  std::vector<uint64_t> blocks;  // block ids of all requests, in order
  uint32_t block_tokens = 0;     // 0: the trace says nothing about equal prompts
  uint64_t failed = 0;           // recorded failures without an answer, left out
};

inline constexpr uint64_t kMaxTraceBlocks = 100'000'000;
inline constexpr uint64_t kMaxTraceRequests = 50'000'000;

// Errors name "file:line" and the field. Times may repeat but not run backwards.
Result<Trace> ReadTrace(const std::string& path, TraceFormat format, std::optional<int64_t> block_tokens,
                        std::optional<int64_t> limit);

// Each request is a session of one turn, sent at its own time divided by the speed-up. Equal block ids give
// equal tokens; requests of a trace without block ids share nothing, and a note says so.
std::unique_ptr<Workload> MakeTrace(const WorkloadSpec& spec, Trace trace);

}  // namespace poolmark::workload
