#include "common/quality/scoring.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "common/quality/abstention.h"
#include "common/quality/unicode.h"

namespace poolmark::quality {
namespace {

CodePoints NormalizePoints(const CodePoints& text) {
  CodePoints lower = Lower(text);
  std::erase_if(lower, IsAsciiPunctuation);
  CodePoints out;
  out.reserve(lower.size());
  auto space = [&] {
    if (!out.empty() && out.back() != U' ') out.push_back(U' ');
  };
  for (size_t i = 0; i < lower.size();) {
    if (IsSpace(lower[i])) {
      space();
      ++i;
    } else if (!IsWord(lower[i])) {
      out.push_back(lower[i++]);
    } else {
      size_t end = i;
      while (end < lower.size() && IsWord(lower[end])) ++end;
      std::u32string_view word(lower.data() + i, end - i);
      if (word == U"a" || word == U"an" || word == U"the") {
        space();
      } else {
        out.append(word);
      }
      i = end;
    }
  }
  if (!out.empty() && out.back() == U' ') out.pop_back();
  return out;
}

CodePoints PhrasePoints(CodePoints cleaned) {
  std::replace(cleaned.begin(), cleaned.end(), U'-', U' ');
  return NormalizePoints(cleaned);
}

std::vector<std::string> Words(const std::string& normalized) {
  std::vector<std::string> words;
  size_t begin = 0;
  while (begin < normalized.size()) {
    size_t end = std::min(normalized.find(' ', begin), normalized.size());
    words.push_back(normalized.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

bool AsciiAlnum(char32_t c) {
  return c < 0x80 && IsWord(c) && c != U'_';
}

// A bare year is context ("in FY 2023"), not the figure asked for.
bool IsYear(std::u32string_view figure) {
  if (figure.size() != 4) return false;
  bool century = (figure[0] == U'1' && (figure[1] == U'8' || figure[1] == U'9')) ||
                 (figure[0] == U'2' && figure[1] == U'0');
  return century && DecimalValue(figure[2]) >= 0 && DecimalValue(figure[3]) >= 0;
}

// Magnitudes of the figures in a cleaned text: an optional minus, digits with thousands separators, decimals;
// not continuing a word or a number ("Q3", "1..5").
std::vector<double> Figures(const CodePoints& text) {
  std::vector<double> out;
  auto digit = [&](size_t i) { return i < text.size() && DecimalValue(text[i]) >= 0; };
  for (size_t i = 0; i < text.size();) {
    bool starts = i == 0 || !(AsciiAlnum(text[i - 1]) || text[i - 1] == U'.');
    size_t begin = i;
    size_t at = i + (text[i] == U'-' ? 1 : 0);
    if (!starts || !digit(at)) {
      ++i;
      continue;
    }
    while (at < text.size() && (digit(at) || text[at] == U',')) ++at;
    if (at < text.size() && text[at] == U'.' && digit(at + 1)) {
      ++at;
      while (digit(at)) ++at;
    }
    i = at;
    std::u32string_view figure(text.data() + begin, at - begin);
    if (IsYear(figure)) continue;
    std::string ascii;
    for (char32_t c : figure) {
      if (int value = DecimalValue(c); value >= 0) ascii += static_cast<char>('0' + value);
      if (c == U'.') ascii += '.';
    }
    out.push_back(std::strtod(ascii.c_str(), nullptr));
  }
  return out;
}

bool NamesScale(const CodePoints& text) {
  CodePoints lower = Lower(text);
  for (size_t i = 0; i < lower.size();) {
    if (!IsWord(lower[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < lower.size() && IsWord(lower[end])) ++end;
    std::u32string_view word(lower.data() + i, end - i);
    std::u32string_view singular =
        !word.empty() && word.back() == U's' ? word.substr(0, word.size() - 1) : word;
    for (std::u32string_view scale : {U"thousand", U"million", U"billion", U"trillion"}) {
      if (singular == scale) return true;
    }
    // "5bn" or "5 bn": the unit's letters end the word and a digit stands before them.
    size_t letters = i;
    while (letters < end && DecimalValue(lower[end - 1 - (letters - i)]) < 0) ++letters;
    std::u32string_view tail(lower.data() + end - (letters - i), letters - i);
    size_t before = end - tail.size();
    bool after_digit =
        before > 0 && (DecimalValue(lower[before - 1]) >= 0 ||
                       (before > 1 && IsSpace(lower[before - 1]) && DecimalValue(lower[before - 2]) >= 0));
    if (after_digit) {
      for (std::u32string_view unit : {U"k", U"m", U"mn", U"b", U"bn"}) {
        if (tail == unit) return true;
      }
    }
    i = end;
  }
  return false;
}

bool SameFigure(double gold, double value, bool rescale) {
  constexpr double kScales[] = {1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e9};
  for (double scale : kScales) {
    if (!rescale && scale != 1.0) continue;
    double scaled = value * scale;
    if (gold == 0.0 ? scaled == 0.0 : std::abs(scaled - gold) <= 0.005 * std::abs(gold)) return true;
  }
  return false;
}

bool IsNegative(const std::string& phrase) {
  for (const std::string& word : Words(phrase)) {
    for (std::string_view negative : {"no", "none", "not", "never", "nothing", "zero"}) {
      if (word == negative) return true;
    }
  }
  return false;
}

}  // namespace

std::string Normalize(std::string_view text) {
  return Encode(NormalizePoints(Decode(text)));
}

std::string Phrase(std::string_view text) {
  return Encode(PhrasePoints(FoldTypography(Decode(text))));
}

bool HoldsPhrase(std::string_view text, std::string_view phrase) {
  if (phrase.empty()) return false;
  for (size_t at = text.find(phrase); at != text.npos; at = text.find(phrase, at + 1)) {
    bool left = at == 0 || text[at - 1] == ' ';
    bool right = at + phrase.size() == text.size() || text[at + phrase.size()] == ' ';
    if (left && right) return true;
  }
  return false;
}

double TokenF1(std::string_view answer, std::string_view gold) {
  std::vector<std::string> a = Words(Normalize(answer));
  std::vector<std::string> g = Words(Normalize(gold));
  if (a.empty() || g.empty()) return a.empty() == g.empty() ? 1.0 : 0.0;
  std::map<std::string_view, int> counts;
  for (const std::string& word : g) ++counts[word];
  int overlap = 0;
  for (const std::string& word : a) {
    auto found = counts.find(word);
    if (found != counts.end() && found->second > 0) {
      --found->second;
      ++overlap;
    }
  }
  if (overlap == 0) return 0.0;
  double precision = static_cast<double>(overlap) / static_cast<double>(a.size());
  double recall = static_cast<double>(overlap) / static_cast<double>(g.size());
  return 2 * precision * recall / (precision + recall);
}

double BestF1(std::string_view answer, const std::vector<std::string>& golds) {
  double best = 0.0;
  for (const std::string& gold : golds) best = std::max(best, TokenF1(answer, gold));
  return best;
}

bool Matches(std::string_view answer, const std::vector<std::string>& golds) {
  CodePoints cleaned = FoldTypography(Decode(answer));
  std::string phrase = Encode(PhrasePoints(cleaned));
  if (phrase.empty()) return false;
  std::vector<double> figures = Figures(cleaned);
  bool abstains = IsAbstention(answer);
  bool answer_scale = NamesScale(cleaned);
  for (const std::string& gold : golds) {
    CodePoints gold_cleaned = FoldTypography(Decode(gold));
    std::string gold_phrase = Encode(PhrasePoints(gold_cleaned));
    if (abstains && !IsNegative(gold_phrase) && !IsAbstention(gold)) continue;
    std::vector<double> wanted = Figures(gold_cleaned);
    if (wanted.empty()) {
      if (HoldsPhrase(phrase, gold_phrase)) return true;
      continue;
    }
    bool rescale = answer_scale || NamesScale(gold_cleaned);
    bool all = std::all_of(wanted.begin(), wanted.end(), [&](double want) {
      return std::any_of(figures.begin(), figures.end(),
                         [&](double have) { return SameFigure(want, have, rescale); });
    });
    if (all) return true;
  }
  return false;
}

}  // namespace poolmark::quality
