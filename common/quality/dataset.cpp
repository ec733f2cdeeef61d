#include "common/quality/dataset.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/json.h"
#include "common/base/json_repair.h"
#include "common/quality/unicode.h"

namespace poolmark::quality {
namespace {

// Python's str() of a JSON value, for the fields where files hold numbers or booleans.
std::string PythonStr(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  return PythonDumps(value, false).value_or("");
}

bool Truthy(const Json& value) {
  if (value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  return !(value.is_string() ? value.get_ref<const std::string&>().empty() : value.empty());
}

const Json kNull;

const Json& At(const Json& object, const char* key) {
  if (!object.is_object()) return kNull;
  auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

// The first truthy one of several fields, or null.
const Json& FirstTruthy(const Json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (const Json& value = At(object, key); Truthy(value)) return value;
  }
  return kNull;
}

std::string Joined(const std::string& title, const std::string& body) {
  std::string stripped_title = Strip(title);
  std::string stripped_body = Strip(body);
  return stripped_title.empty() ? stripped_body : stripped_title + "\n" + stripped_body;
}

std::string PassageText(const Json& passage) {
  if (!passage.is_object()) return Strip(PythonStr(passage));
  const Json& body = FirstTruthy(passage, {"text", "paragraph_text"});
  return Joined(passage.contains("title") ? PythonStr(passage["title"]) : "",
                body.is_null() ? "" : PythonStr(body));
}

std::string Sentences(const Json& value) {
  if (!value.is_array()) return PythonStr(value);
  std::string out;
  for (const Json& sentence : value) out += PythonStr(sentence);
  return out;
}

// HotpotQA's context: parallel lists of titles and sentences, or [title, sentences] pairs.
struct TitledPassage {
  std::string title;
  std::string text;
};
std::vector<TitledPassage> ContextPassages(const Json& context) {
  std::vector<TitledPassage> out;
  if (context.is_object()) {
    const Json& titles = At(context, "title");
    const Json& groups = At(context, "sentences");
    if (!titles.is_array() || !groups.is_array()) return out;
    for (size_t i = 0; i < std::min(titles.size(), groups.size()); ++i) {
      std::string title = PythonStr(titles[i]);
      out.push_back({title, Joined(title, Sentences(groups[i]))});
    }
  } else if (context.is_array()) {
    for (const Json& entry : context) {
      if (!entry.is_array() || entry.size() != 2) continue;
      std::string title = PythonStr(entry[0]);
      out.push_back({title, Joined(title, Sentences(entry[1]))});
    }
  }
  return out;
}

std::vector<std::string> Documents(const Json& record) {
  std::vector<std::string> out;
  const Json& paragraphs = At(record, "paragraphs");
  const Json& passages = FirstTruthy(record, {"ctxs", "contexts", "retrieved_contexts"});
  for (const Json* list : {&paragraphs, &passages}) {
    if (!list->is_array() || list->empty()) continue;
    for (const Json& passage : *list) out.push_back(PassageText(passage));
    return out;
  }
  for (TitledPassage& passage : ContextPassages(At(record, "context")))
    out.push_back(std::move(passage.text));
  return out;
}

std::vector<std::string> Answers(const Json& record) {
  const Json* raw = &kNull;
  for (const char* key : {"answers", "answer", "reference"}) {
    raw = &At(record, key);
    if (!raw->is_null()) break;
  }
  std::vector<std::string> found;
  auto add = [&](const Json& item) {
    if (item.is_array()) {
      for (const Json& inner : item) found.push_back(PythonStr(inner));
    } else if (!item.is_null()) {
      found.push_back(PythonStr(item));
    }
  };
  if (raw->is_array()) {
    for (const Json& item : *raw) add(item);
  } else {
    add(*raw);
  }
  for (const Json* aliases : {&At(record, "answer_aliases"), &At(At(record, "extra"), "answer_aliases")}) {
    if (!aliases->is_array()) continue;
    for (const Json& alias : *aliases) found.push_back(PythonStr(alias));
  }
  std::vector<std::string> out;
  for (const std::string& answer : found) {
    std::string stripped = Strip(answer);
    if (!stripped.empty() && std::find(out.begin(), out.end(), stripped) == out.end())
      out.push_back(std::move(stripped));
  }
  return out;
}

std::set<std::string> SupportingTitles(const Json& record) {
  std::set<std::string> out;
  const Json& facts = At(record, "supporting_facts");
  if (facts.is_object()) {
    const Json& titles = At(facts, "title");
    if (titles.is_array()) {
      for (const Json& title : titles) out.insert(PythonStr(title));
    }
  } else if (facts.is_array()) {
    for (const Json& fact : facts) {
      if (fact.is_array() && !fact.empty()) out.insert(PythonStr(fact[0]));
    }
  }
  return out;
}

// Indices into Documents(), before empty ones are dropped.
std::vector<size_t> Evidence(const Json& record) {
  std::vector<size_t> out;
  const Json& paragraphs = At(record, "paragraphs");
  const Json& metadata = At(record, "context_metadata");
  if (paragraphs.is_array() && !paragraphs.empty()) {
    for (size_t i = 0; i < paragraphs.size(); ++i) {
      if (Truthy(At(paragraphs[i], "is_supporting"))) out.push_back(i);
    }
  } else if (metadata.is_array() && !metadata.empty()) {
    for (size_t i = 0; i < metadata.size(); ++i) {
      if (At(metadata[i], "gold") == true) out.push_back(i);
    }
  } else {
    std::set<std::string> titles = SupportingTitles(record);
    std::vector<TitledPassage> passages = ContextPassages(At(record, "context"));
    for (size_t i = 0; i < passages.size(); ++i) {
      if (titles.contains(passages[i].title)) out.push_back(i);
    }
  }
  return out;
}

Question ReadQuestion(const Json& record, size_t index) {
  Question q;
  std::vector<std::string> raw = Documents(record);
  std::vector<size_t> evidence = Evidence(record);
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i].empty()) continue;
    if (std::find(evidence.begin(), evidence.end(), i) != evidence.end())
      q.evidence.push_back(static_cast<int64_t>(q.documents.size()));
    q.documents.push_back(ValidUtf8(raw[i]));
  }
  const Json& question = FirstTruthy(record, {"question", "query", "user_input"});
  if (!question.is_null()) q.question = Strip(PythonStr(question));
  q.answers = Answers(record);
  const Json& id = FirstTruthy(record, {"_id", "id"});
  q.qid = id.is_null() ? std::to_string(index) : PythonStr(id);
  return q;
}

// Python reads lone surrogates, duplicate keys and NaN; so must we. A number that is none is missing.
Result<Json> ParseLoose(std::string_view text, const std::string& where) {
  JsonLimits limits;
  limits.max_bytes = size_t{4} << 30;
  limits.reject_duplicate_keys = false;
  Result<Json> parsed = ParseJson(text, where, limits);
  if (parsed.ok()) return parsed;
  std::string repaired = NullNonFinite(RepairJson(text));
  if (repaired == text) return parsed;
  return ParseJson(repaired, where, limits);
}

class Collector {
 public:
  Collector(std::string where, int64_t limit) : where_(std::move(where)), limit_(limit) {}
  bool full() const { return limit_ > 0 && static_cast<int64_t>(dataset_.questions.size()) >= limit_; }
  // `name`: "record 3", "line 7".
  Status Add(const Json& record, size_t index, const std::string& name, const std::string& record_where) {
    if (!record.is_object()) return Skip(name, "is no object");
    Question q = ReadQuestion(record, index);
    if (q.documents.empty()) return Skip(name, "has no passages");
    if (q.question.empty()) return Skip(name, "has no question");
    if (q.answers.empty()) return Skip(name, "has no answer");
    if (!ids_.insert(q.qid).second) {
      return InvalidInput(record_where,
                          absl::StrCat("id '", q.qid, "' stands twice; results are joined by it"),
                          "give each record its own id");
    }
    dataset_.questions.push_back(std::move(q));
    return absl::OkStatus();
  }
  Result<Dataset> Finish(std::string_view text) {
    if (dataset_.questions.empty())
      return InvalidInput(where_,
                          absl::StrCat("no record has passages, a question and an answer",
                                       dataset_.first_skipped.empty() ? "" : ": ", dataset_.first_skipped),
                          "see docs/quality.md for the shapes that are read");
    dataset_.sha256 = Sha256Hex(text);
    return std::move(dataset_);
  }

 private:
  Status Skip(const std::string& name, const char* why) {
    if (dataset_.skipped_records++ == 0) dataset_.first_skipped = absl::StrCat(name, " ", why);
    return absl::OkStatus();
  }

  std::string where_;
  int64_t limit_;
  std::set<std::string> ids_;
  Dataset dataset_;
};

}  // namespace

Result<Dataset> ParseDataset(std::string_view text, const std::string& where, bool jsonl, int64_t limit) {
  Collector collector(where, limit);
  if (!jsonl) {
    POOLMARK_ASSIGN_OR_RETURN(Json root, ParseLoose(text, where));
    if (!root.is_array())
      return InvalidInput(
          where, absl::StrCat("is JSON of type ", root.type_name(), ", a list of records is needed"));
    for (size_t i = 0; i < root.size() && !collector.full(); ++i) {
      const std::string name = absl::StrCat("record ", i);
      POOLMARK_RETURN_IF_ERROR(collector.Add(root[i], i, name, absl::StrCat(where, " ", name)));
    }
    return collector.Finish(text);
  }
  std::string_view rest = text;
  size_t line_number = 0;
  size_t index = 0;
  while (!rest.empty() && !collector.full()) {
    ++line_number;
    size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    std::string line_where = absl::StrCat(where, ":", line_number);
    POOLMARK_ASSIGN_OR_RETURN(Json record, ParseLoose(line, line_where));
    POOLMARK_RETURN_IF_ERROR(collector.Add(record, index++, absl::StrCat("line ", line_number), line_where));
  }
  return collector.Finish(text);
}

}  // namespace poolmark::quality
