// When an engine counts a prompt. Plain values.
#pragma once

namespace poolmark::stats {

// When its counter of prompt tokens moves for a prompt. One that moves when a prompt is scheduled counts as
// at its first token, the nearest later moment that a client sees.
enum class CountedAt { kFirstToken, kFinish };

}  // namespace poolmark::stats
