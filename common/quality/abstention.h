// How typography is folded before answers are compared; see scoring.h, which is what callers use.
#pragma once
#include "common/quality/unicode.h"

namespace poolmark::quality {

// NFKC, then curly quotes and every dash to their ASCII marks.
CodePoints FoldTypography(const CodePoints& text);

}  // namespace poolmark::quality
