// Public inference traces: Mooncake, Qwen-Bailian, Azure LLM 2023 and 2024, BurstGPT. Read line by line and
// kept compactly (32 bytes a request, 8 a block). What is larger than fits is refused with its line: a trace
// of gigabytes needs a `limit`, not more memory.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "common/workload/script.h"
#include "common/workload/spec.h"

namespace poolmark::workload {

struct TraceRequest {
  Nanoseconds at{0};  // from the first request, at recorded speed
  uint32_t input_tokens = 0;
  uint32_t output_tokens = 0;
  uint64_t first_block = 0;  // index into Trace::blocks
  uint32_t block_count = 0;
  uint32_t chat = 0;  // conversation, where the trace says: index into Trace::chats; 0: none
};

struct Trace {
  std::vector<TraceRequest> requests;
  std::vector<uint64_t> blocks;  // block ids of all requests, in order
  std::vector<std::string> chats{""};
  uint32_t block_tokens = 0;  // 0: the trace says nothing about equal prompts
  uint64_t failed = 0;        // recorded failures without an answer, left out
};

inline constexpr uint64_t kMaxTraceBlocks = 50'000'000;
inline constexpr uint64_t kMaxTraceRequests = 5'000'000;

// Errors name "file:line" and the field. Times may repeat but not run backwards.
Result<Trace> ReadTrace(const std::string& path, TraceFormat format, std::optional<int64_t> block_tokens,
                        std::optional<int64_t> limit);

// Each request is a session of one turn, sent at its own time divided by the speed-up. Equal block ids give
// equal tokens; requests of a trace without block ids share nothing, and a note says so.
std::unique_ptr<Workload> MakeTrace(const WorkloadSpec& spec, Trace trace);

}  // namespace poolmark::workload
