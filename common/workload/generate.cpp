#include "common/workload/generate.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "common/base/files.h"
#include "common/base/zstd_file.h"
#include "common/workload/inspect.h"
#include "common/workload/source.h"

namespace poolmark::workload {
namespace {

constexpr uint32_t kMooncakeBlock = 512;

// Ids of 512-token blocks, each with all before it, numbered as they first appear; the last may be shorter.
class BlockIds {
 public:
  Json Of(const Prompt& prompt) {
    Json ids = Json::array();
    uint64_t chain = 1;
    uint32_t filled = 0;
    for (const Span& span : prompt) {
      for (uint32_t at = 0; at < span.tokens;) {
        const uint32_t part = std::min(kMooncakeBlock - filled, span.tokens - at);
        chain = MixKey(MixKey(chain, span.key), (static_cast<uint64_t>(at) << 32) | part);
        at += part;
        filled += part;
        if (filled < kMooncakeBlock) continue;
        ids.push_back(Number(chain));
        filled = 0;
      }
    }
    if (filled > 0) ids.push_back(Number(MixKey(chain, std::string_view("tail"))));
    return ids;
  }

 private:
  uint64_t Number(uint64_t chain) { return numbers_.try_emplace(chain, numbers_.size()).first->second; }
  std::unordered_map<uint64_t, uint64_t> numbers_;
};

// One line at a time, compressed when the name says so.
class LineWriter {
 public:
  static Result<LineWriter> Create(const std::string& path) {
    LineWriter writer;
    writer.path_ = path;
    if (path.ends_with(".zst")) {
      POOLMARK_ASSIGN_OR_RETURN(writer.zstd_, ZstdWriter::Create(path));
    }
    return writer;
  }
  Status Write(const Json& json) {
    POOLMARK_ASSIGN_OR_RETURN(std::string text, DumpJson(json));
    text.push_back('\n');
    if (zstd_) return zstd_->Write(text);
    plain_ += text;
    if (plain_.size() < (8u << 20)) return absl::OkStatus();
    return Spill();
  }
  Status Finish() {
    if (zstd_) return zstd_->Finish();
    POOLMARK_RETURN_IF_ERROR(Spill());
    return RenameDurably(path_ + ".tmp", path_);
  }

 private:
  Status Spill() {
    if (!started_) {
      started_ = true;
      (void)RemoveTree(path_ + ".tmp");
    }
    const Status status = AppendFile(path_ + ".tmp", plain_, false);
    plain_.clear();
    return status;
  }
  std::string path_, plain_;
  std::unique_ptr<ZstdWriter> zstd_;
  bool started_ = false;
};

}  // namespace

Result<uint64_t> Generate(const std::string& source, bool tokens, const std::string& out) {
  POOLMARK_ASSIGN_OR_RETURN(const Json json, DetectWorkload(source));
  POOLMARK_ASSIGN_OR_RETURN(const auto spec, ParseWorkload(json, source));
  POOLMARK_ASSIGN_OR_RETURN(const auto workload, OpenWorkload(spec));
  POOLMARK_ASSIGN_OR_RETURN(auto writer, LineWriter::Create(out));
  BlockIds blocks;
  uint64_t open = UINT64_MAX, written = 0;
  Script script;
  for (const Arrival& arrival : PlanArrivals(*workload, spec, false)) {
    if (arrival.session != open) {
      script = workload->Open(arrival.session);
      open = arrival.session;
    }
    const Turn& turn = script.turns[arrival.turn];
    const double seconds = std::chrono::duration<double>(arrival.start).count();
    Json line;
    if (tokens) {
      line = {{"session", script.id},
              {"turn", arrival.turn},
              {"at", seconds},
              {"prompt", TokensIn(turn.prompt, spec.vocabulary)},
              {"max_tokens", turn.output_tokens}};
    } else {
      line = {{"timestamp", std::llround(seconds * 1e3)},
              {"input_length", TokensOf(turn.prompt)},
              {"output_length", turn.output_tokens},
              {"hash_ids", blocks.Of(turn.prompt)}};
    }
    POOLMARK_RETURN_IF_ERROR(writer.Write(line));
    ++written;
  }
  POOLMARK_RETURN_IF_ERROR(writer.Finish());
  return written;
}

}  // namespace poolmark::workload
