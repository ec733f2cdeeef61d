#include "common/quality/accuracy_file.h"

#include <cmath>

#include "common/base/json_text.h"
#include "common/quality/codec_parts.h"
#include "common/quality/types.h"

namespace poolmark::quality {
namespace {

constexpr double kRounding = 0.5;  // of tokens, in what is left of a sum

}  // namespace

Result<std::string> EncodeAccuracyFile(const AccuracyFile& file) {
  Json out = {{"schema_version", kSchemaVersion}, {"stack", file.stack}, {"reference", file.reference}};
  Json tokens = Json::object();
  if (file.sources) {
    for (const auto& [name, member] : kPromptSourceFields) tokens[name] = (*file.sources).*member;
  } else {
    tokens["not_measured"] = file.not_measured;
  }
  out["prompt_tokens"] = std::move(tokens);
  out["notes"] = file.notes;
  POOLMARK_ASSIGN_OR_RETURN(std::string text, WriteJson(out, 1));
  return text + "\n";
}

Result<AccuracyFile> DecodeAccuracyFile(std::string_view text, const std::string& where) {
  POOLMARK_ASSIGN_OR_RETURN(Json root, ParseFile(text, where));
  POOLMARK_RETURN_IF_ERROR(CheckSchema(root, where));
  Fields f(root, where);
  AccuracyFile out;
  out.stack = f.Str("stack");
  out.reference = f.Str("reference");
  out.notes = f.Strings("notes");
  if (Json* tokens = f.Object("prompt_tokens")) {
    Fields t(*tokens, absl::StrCat(where, " prompt_tokens"));
    if (t.Has("not_measured")) {
      out.not_measured = t.Str("not_measured");
    } else {
      out.sources.emplace();
      for (const auto& [name, member] : kPromptSourceFields) {
        const double value = t.Num(name);
        if (!(value >= -kRounding && value <= kMostTokens))
          t.Fail(name, absl::StrCat("is ", value, ", 0 to ", kMostTokens, " is needed"));
        (*out.sources).*member = value;
      }
    }
    f.Adopt(t.status());
  }
  if (!f.status().ok()) return f.status();
  return out;
}

std::string DescribeSources(const AccuracyFile& file) {
  std::string out;
  if (!file.sources) {
    out = absl::StrCat("where its prompt tokens came from is not measured: ", file.not_measured);
  } else {
    const PromptSources& s = *file.sources;
    auto percent = [&](double part) { return s.prompt > 0 ? std::lround(100 * part / s.prompt) : 0; };
    std::string parts;
    for (const auto& [name, part] :
         {std::pair("gpu", s.gpu), {"host", s.host}, {"storage", s.storage}, {"remote", s.remote}}) {
      if (part > 0) absl::StrAppend(&parts, parts.empty() ? " (" : ", ", name, " ", percent(part), " %");
    }
    out = absl::StrCat("of ", std::lround(s.prompt), " prompt tokens ", percent(s.reused()),
                       " % came from caches", parts, parts.empty() ? "" : ")");
  }
  for (const std::string& note : file.notes) absl::StrAppend(&out, "; ", note);
  return out;
}

}  // namespace poolmark::quality
