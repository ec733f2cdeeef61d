#include <set>

#include "common/base/json_text.h"
#include "common/quality/codec.h"
#include "common/quality/codec_parts.h"
#include "common/quality/plan_split.h"

namespace poolmark::quality {
namespace {

Json SettingsJson(const Settings& s) {
  Json kwargs = Json::object();
  for (const auto& [key, value] : s.template_kwargs) {
    std::visit([&, name = key](const auto& v) { kwargs[name] = v; }, value);
  }
  Json out = {{"model", s.model},
              {"dataset", s.dataset},
              {"task", s.task},
              {"scenario", s.scenario},
              {"num_samples", s.num_samples},
              {"chunk_size", s.chunk_size},
              {"max_output_tokens", s.max_output_tokens},
              {"template_kwargs", std::move(kwargs)},
              {"seed", s.seed}};
  if (s.filler) out["filler"] = *s.filler;
  if (s.min_unit_tokens) out["min_unit_tokens"] = *s.min_unit_tokens;
  return out;
}

Settings ReadSettings(Json& object, const std::string& where, Status* status) {
  Fields f(object, where);
  Settings s;
  s.model = f.Str("model");
  s.dataset = f.Str("dataset");
  s.task = f.Str("task");
  s.scenario = f.Str("scenario");
  s.num_samples = f.Count("num_samples");
  s.chunk_size = f.Count("chunk_size", 1);
  s.max_output_tokens = f.Count("max_output_tokens", 1);
  s.seed = f.Int("seed");
  s.filler = f.NullableStr("filler");
  s.min_unit_tokens = f.NullableCount("min_unit_tokens");
  if (Json* kwargs = f.Object("template_kwargs")) {
    for (auto it = kwargs->begin(); it != kwargs->end(); ++it) {
      if (it->is_boolean()) {
        s.template_kwargs.emplace_back(it.key(), it->get<bool>());
      } else if (it->is_number_integer()) {
        s.template_kwargs.emplace_back(it.key(), it->get<int64_t>());
      } else if (it->is_string()) {
        s.template_kwargs.emplace_back(it.key(), it->get<std::string>());
      } else {
        f.Fail("template_kwargs", absl::StrCat("holds '", it.key(), "' of type ", it->type_name(),
                                               ", a bool, an integer or a string is needed"));
      }
    }
  }
  *status = f.status();
  return s;
}

Messages ReadMessages(Fields& fields, const char* key) {
  Messages out;
  Json* array = fields.Array(key);
  if (array == nullptr) return out;
  for (Json& item : *array) {
    Fields f(item, absl::StrCat(fields.where(), ".", key));
    Message message;
    message.role = f.Str("role");
    message.content = f.Str("content");
    out.push_back(std::move(message));
    fields.Adopt(f.status());
  }
  return out;
}

Json RecordJson(const Sample& s, const std::string& scenario, int64_t chunk_size) {
  Json passages = Json::array();
  for (const PassageRecord& p : s.passages) {
    passages.push_back({{"passage_id", p.passage_id},
                        {"origin", p.origin},
                        {"store_request_id", p.store_request_id},
                        {"stored_position", p.stored_position},
                        {"measured_position", p.measured_position},
                        {"is_evidence", p.is_evidence},
                        {"measured_earlier_in", p.measured_earlier_in},
                        {"pad_tokens", p.pad_tokens}});
  }
  return {{"qid", s.qid},
          {"scenario", scenario},
          {"chunk_size", chunk_size},
          {"request_id", s.request_id},
          {"prompt_hash", s.prompt_hash},
          {"evidence_source", s.evidence_source},
          {"evidence_passage_ids", s.evidence_passage_ids},
          {"expected_reused_tokens", OrNull(s.expected_reused_tokens)},
          {"unit_position", OrNull(s.unit_position)},
          {"duplicate_of", OrNull(s.duplicate_of)},
          {"passages", std::move(passages)}};
}

PassageRecord ReadPassage(Json& object, const std::string& where, Status* status) {
  Fields f(object, where);
  PassageRecord p;
  p.passage_id = f.Str("passage_id");
  p.origin = f.Str("origin");
  p.store_request_id = f.Str("store_request_id");
  p.stored_position = f.Count("stored_position");
  p.measured_position = f.Count("measured_position");
  p.is_evidence = f.Bool("is_evidence");
  p.measured_earlier_in = f.Strings("measured_earlier_in");
  p.pad_tokens = f.Null("pad_tokens") ? 0 : f.Count("pad_tokens");
  *status = f.status();
  return p;
}

// The manifest part of a sample. Every record repeats the plan's scenario and chunk size; `plan` null: it is
// not known here.
Sample ReadRecord(Fields& f, const Plan* plan) {
  Sample s;
  const std::string scenario = f.Str("scenario");
  const int64_t chunk_size = f.Count("chunk_size", 1);
  if (plan != nullptr && scenario != plan->scenario)
    f.Fail("scenario", absl::StrCat("is '", scenario.substr(0, 40), "', the plan's is ", plan->scenario));
  if (plan != nullptr && chunk_size != plan->chunk_size)
    f.Fail("chunk_size", absl::StrCat("is ", chunk_size, ", the plan's is ", plan->chunk_size));
  s.qid = f.Str("qid");
  s.request_id = f.Str("request_id");
  s.prompt_hash = f.Str("prompt_hash");
  s.evidence_source = f.Str("evidence_source");
  if (f.status().ok() && s.evidence_source != "dataset" && s.evidence_source != "answer_string" &&
      s.evidence_source != "none") {
    f.Fail("evidence_source",
           absl::StrCat("is '", s.evidence_source, "', one of dataset, answer_string, none is needed"));
  }
  s.evidence_passage_ids = f.Strings("evidence_passage_ids");
  s.expected_reused_tokens = f.NullableCount("expected_reused_tokens");
  s.unit_position = f.NullableCount("unit_position");
  s.duplicate_of = f.NullableStr("duplicate_of");
  if (Json* passages = f.Array("passages")) {
    for (size_t i = 0; i < passages->size(); ++i) {
      Status status;
      s.passages.push_back(
          ReadPassage((*passages)[i], absl::StrCat(f.where(), ".passages[", i, "]"), &status));
      f.Adopt(status);
      if (!status.ok()) break;
    }
  }
  return s;
}

Result<Sample> ReadSample(Json& object, const std::string& where, const Plan& plan) {
  Fields f(object, where);
  Sample s = ReadRecord(f, &plan);
  s.question = f.Str("question");
  s.answers = f.Strings("answers");
  s.documents = f.Strings("documents");
  s.messages = ReadMessages(f, "messages");
  if (Json* indices = f.Array("evidence_indices")) {
    for (const Json& index : *indices) {
      if (!index.is_number_unsigned() || index.get<uint64_t>() >= s.documents.size()) {
        f.Fail(
            "evidence_indices",
            absl::StrCat("holds ", index.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 40),
                         ", an index into ", s.documents.size(), " documents is needed"));
        break;
      }
      s.evidence_indices.push_back(index.get<int64_t>());
    }
  }
  if (!f.status().ok()) return f.status();
  return s;
}

// The pieces, each parsed on its own, then what stands in the array itself.
Status ForEachPiece(const std::vector<std::string_view>& pieces, Json& array, const std::string& where,
                    const std::function<Status(Json& element, const std::string& where)>& each) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string piece_where = absl::StrCat(where, "[", i, "]");
    POOLMARK_ASSIGN_OR_RETURN(Json element, ParseFile(pieces[i], piece_where));
    POOLMARK_RETURN_IF_ERROR(each(element, piece_where));
  }
  for (size_t i = 0; i < array.size(); ++i)
    POOLMARK_RETURN_IF_ERROR(each(array[i], absl::StrCat(where, "[", pieces.size() + i, "]")));
  return absl::OkStatus();
}

}  // namespace

Result<std::string> EncodeSettings(const Settings& settings) {
  return WriteJson(SettingsJson(settings));
}

Result<std::string> EncodePlan(const Plan& plan) {
  Json samples = Json::array();
  for (const Sample& s : plan.samples) {
    Json record = RecordJson(s, plan.scenario, plan.chunk_size);
    record["question"] = s.question;
    record["answers"] = s.answers;
    record["documents"] = s.documents;
    record["evidence_indices"] = s.evidence_indices;
    record["messages"] = MessagesJson(s.messages);
    samples.push_back(std::move(record));
  }
  Json stores = Json::array();
  for (const StoreRequest& store : plan.store_requests) {
    stores.push_back({{"request_id", store.request_id}, {"messages", MessagesJson(store.messages)}});
  }
  Json body = {{"scenario", plan.scenario}, {"chunk_size", plan.chunk_size}};
  body["store_requests"] = std::move(stores);
  body["samples"] = std::move(samples);
  if (plan.padding) {
    body["padding"] = {{"filler", plan.padding->filler},
                       {"pad_tokens", plan.padding->pad_tokens},
                       {"prompt_tokens", plan.padding->prompt_tokens}};
  }
  Json root = {{"schema_version", kSchemaVersion},      {"plan_fingerprint", plan.plan_fingerprint},
               {"prompts_digest", plan.prompts_digest}, {"lmcache_version", plan.lmcache_version},
               {"created_at", plan.created_at},         {"settings", SettingsJson(plan.settings)}};
  root["plan"] = std::move(body);
  POOLMARK_ASSIGN_OR_RETURN(std::string text, WriteJson(root));
  return text + "\n";
}

Result<Plan> DecodePlan(std::string_view text, const std::string& where, bool keep_messages) {
  const SplitPlan split = SplitPlanText(text);
  POOLMARK_ASSIGN_OR_RETURN(Json root, ParseFile(split.rest, where));
  POOLMARK_RETURN_IF_ERROR(CheckSchema(root, where));
  Fields top(root, where);
  Plan plan;
  plan.plan_fingerprint = top.Str("plan_fingerprint");
  plan.prompts_digest = top.Str("prompts_digest");
  plan.lmcache_version = top.Str("lmcache_version");
  plan.created_at = top.Str("created_at");
  Json* settings = top.Object("settings");
  Json* body = top.Object("plan");
  if (!top.status().ok()) return top.status();
  POOLMARK_ASSIGN_OR_RETURN(plan.settings_json, WriteJson(*settings));
  Status status;
  plan.settings = ReadSettings(*settings, absl::StrCat(where, " settings"), &status);
  POOLMARK_RETURN_IF_ERROR(status);

  Fields f(*body, absl::StrCat(where, " plan"));
  plan.scenario = f.Str("scenario");
  plan.chunk_size = f.Count("chunk_size", 1);
  if (f.status().ok() && plan.scenario != "independent" && plan.scenario != "reordered" &&
      plan.scenario != "concatenated") {
    f.Fail("scenario",
           absl::StrCat("is '", plan.scenario, "', one of independent, reordered, concatenated is needed"));
  }
  // Digests and summary have the settings, the gates the plan's: both must tell the same.
  if (f.status().ok() && (plan.scenario != plan.settings.scenario))
    f.Fail("scenario", absl::StrCat("is ", plan.scenario, ", the settings say '",
                                    plan.settings.scenario.substr(0, 40), "'"));
  if (f.status().ok() && plan.chunk_size != plan.settings.chunk_size)
    f.Fail("chunk_size",
           absl::StrCat("is ", plan.chunk_size, ", the settings say ", plan.settings.chunk_size));
  if (Json* padding = f.NullableObject("padding")) {
    Fields p(*padding, absl::StrCat(where, " plan.padding"));
    plan.padding = Padding{p.Str("filler"), p.Count("pad_tokens"), p.Count("prompt_tokens")};
    f.Adopt(p.status());
  }
  Json* stores = f.Array("store_requests");
  Json* samples = f.Array("samples");
  if (!f.status().ok()) return f.status();
  // The arrays' elements were split off; what is left in them came in a spelling that the splitter does not
  // know.
  POOLMARK_RETURN_IF_ERROR(ForEachPiece(split.store_requests, *stores,
                                        absl::StrCat(where, " plan.store_requests"),
                                        [&](Json& element, const std::string& element_where) -> Status {
                                          Fields s(element, element_where);
                                          StoreRequest store;
                                          store.request_id = s.Str("request_id");
                                          store.messages = ReadMessages(s, "messages");
                                          if (!keep_messages) store.messages = {};
                                          plan.store_requests.push_back(std::move(store));
                                          return s.status();
                                        }));
  std::set<std::string> qids;
  POOLMARK_RETURN_IF_ERROR(ForEachPiece(
      split.samples, *samples, absl::StrCat(where, " plan.samples"),
      [&](Json& element, const std::string& element_where) -> Status {
        POOLMARK_ASSIGN_OR_RETURN(Sample sample, ReadSample(element, element_where, plan));
        if (!qids.insert(sample.qid).second) {
          return InvalidInput(element_where,
                              absl::StrCat("qid '", sample.qid, "' stands twice, rows are joined by it"));
        }
        if (!keep_messages) sample.messages = {};
        plan.samples.push_back(std::move(sample));
        return absl::OkStatus();
      }));
  if (plan.samples.empty()) return InvalidInput(where, "the plan has no questions");
  return plan;
}

Result<std::string> EncodeManifest(const Plan& plan) {
  std::string out;
  for (const Sample& s : plan.samples) {
    POOLMARK_ASSIGN_OR_RETURN(std::string line, WriteJson(RecordJson(s, plan.scenario, plan.chunk_size)));
    absl::StrAppend(&out, line, "\n");
  }
  return out;
}

Result<std::vector<Sample>> DecodeManifest(std::string_view text, const std::string& where) {
  std::vector<Sample> out;
  POOLMARK_RETURN_IF_ERROR(
      ForEachLine(text, where, [&](Json& object, const std::string& line_where) -> Status {
        Fields f(object, line_where);
        out.push_back(ReadRecord(f, nullptr));
        return f.status();
      }));
  return out;
}

}  // namespace poolmark::quality
