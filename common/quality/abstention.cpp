#include "common/quality/abstention.h"

#include <unicode/regex.h>

#include <algorithm>
#include <memory>

#include "common/quality/scoring.h"

namespace poolmark::quality {
namespace {

// ICU's \b counts combining marks as word characters, Python's does not: the edges are spelled out.
#define POOLMARK_EDGE "(?:(?<![\\p{L}\\p{N}_])(?=[\\p{L}\\p{N}_])|(?<=[\\p{L}\\p{N}_])(?![\\p{L}\\p{N}_]))"
constexpr char kPattern[] = POOLMARK_EDGE
    "(?:not "
    "(?:provided|mentioned|available|stated|specified|found|given|disclosed|included|contained|identified)"
    "|(?:does|do|did)(?: not|n't) (?:contain|include|provide|mention|state|specify|give|disclose|appear)"
    // "name", "say" and the like decline only where the source is their subject.
    "|(?:passages?|excerpts?|context|documents?|texts?|filings?|sources?|materials?|statements?|information|"
    "data|report)" POOLMARK_EDGE "[^.;]{0,60}?" POOLMARK_EDGE
    "(?:does|do|did)(?: not|n't) (?:name|identify|indicate|say|supply|offer)"
    "|(?:cannot|can't|can not|unable to|impossible to|(?:not|isn't|wasn't) possible to)(?: be)?"
    " (?:determine|answer|calculate|compute|identify|confirm|assess|establish|tell|find)(?:d|ed)?"
    "|cannot be (?:made|found|identified)"
    "|insufficient (?:information|context|data|to (?:answer|determine|calculate))"
    "|(?:information|data|context) (?:is|are) insufficient"
    "|none of the (?:passages|excerpts|documents|texts|provided|given|sources)"
    "|no (?:information|data|mention)"
    "|unknown|unanswerable)" POOLMARK_EDGE;
#undef POOLMARK_EDGE

const icu::RegexPattern* Pattern() {
  static const std::unique_ptr<icu::RegexPattern> pattern = [] {
    UErrorCode error = U_ZERO_ERROR;
    UParseError where;
    return std::unique_ptr<icu::RegexPattern>(
        icu::RegexPattern::compile(icu::UnicodeString::fromUTF8(kPattern), 0, where, error));
  }();
  return pattern.get();
}

bool Found(const CodePoints& text) {
  UErrorCode error = U_ZERO_ERROR;
  icu::UnicodeString input = icu::UnicodeString::fromUTF32(reinterpret_cast<const UChar32*>(text.data()),
                                                           static_cast<int32_t>(text.size()));
  std::unique_ptr<icu::RegexMatcher> matcher(Pattern()->matcher(input, error));
  return U_SUCCESS(error) && matcher->find(error) && U_SUCCESS(error);
}

}  // namespace

CodePoints FoldTypography(const CodePoints& text) {
  CodePoints out = Nfkc(text);
  for (char32_t& c : out) {
    if (c == 0x2018 || c == 0x2019) c = U'\'';
    if (c == 0x201c || c == 0x201d) c = U'"';
    if ((c >= 0x2010 && c <= 0x2014) || c == 0x2212) c = U'-';
  }
  return out;
}

bool IsAbstention(std::string_view answer) {
  CodePoints lower = Lower(Strip(FoldTypography(Decode(answer))));
  if (lower.empty()) return false;
  std::u32string_view bare = lower;
  while (!bare.empty() && bare.back() == U'.') bare.remove_suffix(1);
  for (std::u32string_view whole : {U"none", U"n/a", U"na", U"null", U"unknown"}) {
    if (bare == whole) return true;
  }
  return Found(lower);
}

}  // namespace poolmark::quality
