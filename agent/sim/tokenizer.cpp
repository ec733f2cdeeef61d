#include "agent/sim/tokenizer.h"

namespace poolmark::sim {
namespace {

constexpr Token kPacked = 0x10000000;
constexpr Token kCodePoint = 0x20000000;
constexpr Token kByte = 0x30000000;
constexpr Token kKind = 0x30000000;

bool IsWordByte(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool IsSpace(unsigned char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

void Pack(std::string_view ascii, std::vector<Token>* tokens) {
  while (!ascii.empty()) {
    Token token = kPacked;
    size_t take = ascii.size() < 4 ? ascii.size() : 4;
    for (size_t i = 0; i < take; ++i) token |= static_cast<Token>(ascii[i]) << (7 * i);
    tokens->push_back(token);
    ascii.remove_prefix(take);
  }
}

// Length of the UTF-8 sequence at the front and its code point; 0 when it is none.
size_t CodePointAt(std::string_view text, Token* code) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = byte(0);
  size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  Token value = first & (0xff >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    value = value << 6 | (byte(i) & 0x3f);
  }
  static constexpr Token kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kSmallest[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return 0;
  *code = value;
  return length;
}

void AppendUtf8(Token code, std::string* out) {
  auto put = [out](Token byte) { out->push_back(static_cast<char>(byte)); };
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
  }
  put(0x80 | (code & 0x3f));
}

}  // namespace

void Encode(std::string_view text, std::vector<Token>* tokens) {
  size_t at = 0;
  while (at < text.size()) {
    auto c = static_cast<unsigned char>(text[at]);
    if (c >= 0x80) {
      Token code = 0;
      size_t length = CodePointAt(text.substr(at), &code);
      tokens->push_back(length == 0 ? kByte | c : kCodePoint | code);
      at += length == 0 ? 1 : length;
      continue;
    }
    if (c == 0) {
      tokens->push_back(kByte);
      ++at;
      continue;
    }
    size_t end = at;
    if (IsSpace(c)) {
      while (end < text.size() && IsSpace(static_cast<unsigned char>(text[end]))) ++end;
      // The last space of a run belongs to the word behind it.
      bool word_follows = end < text.size() && static_cast<unsigned char>(text[end]) < 0x80 && text[end] != 0;
      if (word_follows && text[end - 1] == ' ') {
        Pack(text.substr(at, end - 1 - at), tokens);
        at = end - 1;
        end = at + 1;
      } else {
        Pack(text.substr(at, end - at), tokens);
        at = end;
        continue;
      }
    }
    if (IsWordByte(static_cast<unsigned char>(text[end]))) {
      while (end < text.size() && IsWordByte(static_cast<unsigned char>(text[end]))) ++end;
    } else {
      ++end;  // punctuation is a token of its own
    }
    Pack(text.substr(at, end - at), tokens);
    at = end;
  }
}

std::string Piece(Token token) {
  static constexpr const char* kSpecial[] = {"<|pad|>",  "<|begin|>",     "<|end|>", "<|system|>",
                                             "<|user|>", "<|assistant|>", "<|tool|>"};
  std::string out;
  if (token < 7) return kSpecial[token];
  switch (token & ~(kPacked - 1)) {
    case kPacked:
      for (Token rest = token & ~kKind; rest != 0; rest >>= 7) {
        if ((rest & 0x7f) != 0) out.push_back(static_cast<char>(rest & 0x7f));
      }
      return out;
    case kCodePoint: {
      Token code = token & ~kKind;
      bool valid = code >= 0x80 && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000);
      if (valid) AppendUtf8(code, &out);
      return out;
    }
    case kByte:
      out.push_back(static_cast<char>(token & 0xff));
      return out;
    default:
      return " t" + std::to_string(token);
  }
}

std::string Decode(const std::vector<Token>& tokens) {
  std::string text;
  for (Token token : tokens) text += Piece(token);
  return text;
}

SpecialToken RoleToken(std::string_view role) {
  if (role == "system" || role == "developer") return kSystem;
  if (role == "assistant") return kAssistant;
  if (role == "tool" || role == "function") return kTool;
  return kUser;
}

}  // namespace poolmark::sim
