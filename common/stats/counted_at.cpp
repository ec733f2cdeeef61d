#include "common/stats/counted_at.h"

namespace poolmark::stats {

CountedAt PromptsCountedAt(std::string_view dialect) {
  return dialect == "sglang" || dialect == "trtllm" ? CountedAt::kFinish : CountedAt::kFirstToken;
}

}  // namespace poolmark::stats
