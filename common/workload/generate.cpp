#include "common/workload/generate.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "common/base/files.h"
#include "common/base/zstd_file.h"
#include "common/workload/inspect.h"
#include "common/workload/open_scripts.h"
#include "common/workload/reuse.h"
#include "common/workload/source.h"

namespace poolmark::workload {
namespace {

// Ids of blocks, each with all before it, numbered as they first appear; the last may be shorter. Counts how
// much of the prompts began like an earlier one, in whole blocks.
class BlockIds {
 public:
  explicit BlockIds(uint32_t block_tokens) : block_tokens_(block_tokens) {}
  double share() const { return prompt_ > 0 ? reusable_ / prompt_ : 0; }

  Json Of(const Prompt& prompt) {
    const uint64_t known = numbers_.size();
    prefix_ = true;
    Json ids = Json::array();
    uint64_t chain = 1;
    uint32_t filled = 0;
    for (const Span& span : prompt) {
      for (uint32_t at = 0; at < span.tokens;) {
        const uint32_t part = std::min(block_tokens_ - filled, span.tokens - at);
        chain = MixKey(MixKey(chain, span.key), (static_cast<uint64_t>(at) << 32) | part);
        at += part;
        filled += part;
        prompt_ += part;
        if (filled < block_tokens_) continue;
        ids.push_back(Number(chain));
        prefix_ = prefix_ && ids.back().get<uint64_t>() < known;
        if (prefix_) reusable_ += block_tokens_;
        filled = 0;
      }
    }
    if (filled > 0) ids.push_back(Number(MixKey(chain, std::string_view("tail"))));
    return ids;
  }

 private:
  uint64_t Number(uint64_t chain) { return numbers_.try_emplace(chain, numbers_.size()).first->second; }
  uint32_t block_tokens_;
  std::unordered_map<uint64_t, uint64_t> numbers_;
  bool prefix_ = true;
  double prompt_ = 0, reusable_ = 0;
};

// Whether both names lead to one file.
bool SameFile(const std::string& a, const std::string& b) {
  struct stat of_a, of_b;
  return stat(a.c_str(), &of_a) == 0 && stat(b.c_str(), &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

// A file that is written anew as a whole takes the place of what has its name: of a file only, and of none
// that it is made from.
Status CheckOut(const std::string& out, const std::string& source, const WorkloadSpec& spec) {
  struct stat there;
  if (out == "-")
    return InvalidInput(out, "is no name of a file", "standard output is not written to: name a file");
  if (lstat(out.c_str(), &there) == 0 && !S_ISREG(there.st_mode))
    return InvalidInput(out, "is no regular file", "give the name of a file");
  for (const std::string& input : {source, spec.file}) {
    if (!input.empty() && SameFile(out, input))
      return InvalidInput(out, "is the workload that is read", "give another file");
  }
  return absl::OkStatus();
}

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
    if (zstd_) return zstd_->Finish();  // writes beside its name, too
    POOLMARK_RETURN_IF_ERROR(Spill());
    return RenameDurably(path_ + ".tmp", path_);
  }

 private:
  Status Spill() {
    if (!started_) {
      started_ = true;
      (void)unlink((path_ + ".tmp").c_str());
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

Result<Generated> Generate(const std::string& source, const GenerateOptions& options,
                           const std::string& out) {
  POOLMARK_ASSIGN_OR_RETURN(const Json json, DetectWorkload(source));
  POOLMARK_ASSIGN_OR_RETURN(const auto spec, ParseWorkload(json, source));
  POOLMARK_RETURN_IF_ERROR(CheckLevels(spec, source));
  POOLMARK_RETURN_IF_ERROR(CheckOut(out, source, spec));
  POOLMARK_ASSIGN_OR_RETURN(const auto workload, OpenWorkload(spec));
  POOLMARK_ASSIGN_OR_RETURN(auto writer, LineWriter::Create(out));
  BlockIds blocks(std::max<uint32_t>(1, options.block_tokens));
  Generated written;
  const std::vector<Arrival> arrivals = PlanArrivals(*workload, spec, false);
  OpenScripts scripts(*workload, arrivals);
  for (const Arrival& arrival : arrivals) {
    const Turn& turn = *scripts.Take(arrival);  // never null: the plan is of this workload
    const double seconds = std::chrono::duration<double>(arrival.start).count();
    Json line;
    if (options.tokens) {
      line = {{"session", scripts.IdOf(arrival.session)},
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
    ++written.requests;
    scripts.Done(arrival);
  }
  POOLMARK_RETURN_IF_ERROR(writer.Finish());
  const size_t levels = std::max({spec.concurrency.size(), spec.rate.size(), spec.speedup.size()});
  if (levels > 1)
    written.notes.push_back("of the " + std::to_string(levels) + " levels only the first is written");
  ReuseOptions reuse;
  reuse.curve = false;
  written.reusable_of_prompts = Analyse(*workload, arrivals, reuse).share_uncut().value_or(0);
  reuse.live_answers = spec.live_answers;
  written.reusable = spec.live_answers ? Analyse(*workload, arrivals, reuse).share_uncut().value_or(0)
                                       : written.reusable_of_prompts;
  written.reusable_written = options.tokens ? written.reusable_of_prompts : blocks.share();
  return written;
}

}  // namespace poolmark::workload
