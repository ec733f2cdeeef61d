// Reading and checking the session file; the replay is in agentic.cpp.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/base/zstd_file.h"
#include "common/workload/agentic.h"

namespace poolmark::workload {
namespace {

constexpr double kMaxSeconds = 1e8;
constexpr uint64_t kMaxStoredBlocks = 50'000'000;  // of all sessions: 400 MB
constexpr size_t kMaxLine = 64u << 20;

// One session being read. Throws nothing; every check returns a Status naming the field.
class SessionReader {
 public:
  // `stored`: blocks that the sessions before keep.
  SessionReader(std::string where, uint64_t stored) : where_(std::move(where)), stored_(stored) {}
  uint64_t stored() const { return stored_; }

  Result<AgenticSession> Read(const Json& json) {
    if (!json.is_object()) return Bad("the line", "is no object");
    const auto id = json.find("id");
    if (id == json.end() || !id->is_string() || id->get<std::string>().empty())
      return Bad("id", "is missing or no text");
    session_.id = id->get<std::string>();
    POOLMARK_ASSIGN_OR_RETURN(const int64_t block, Whole(json, "block_size", 1, 65536, "block_size"));
    session_.block_tokens = static_cast<uint32_t>(block);
    if (const auto scope = json.find("hash_id_scope"); scope != json.end()) {
      if (*scope != "local" && *scope != "global") return Bad("hash_id_scope", "must be local or global");
      session_.local_scope = *scope == "local";
    }
    POOLMARK_RETURN_IF_ERROR(ReadRequests(json, "requests", "", 0));
    if (session_.requests.empty()) return Bad("requests", "is empty");
    return Ordered();
  }

 private:
  // What the replay needs to know about a request besides what it stores.
  struct Place {
    std::vector<size_t> after;  // positions in reading order
    double end = 0;
    bool timed = true;  // the ends of all it waits for are known
  };

  Status Bad(const std::string& field, const std::string& problem) const {
    return InvalidInput(where_, field + " " + problem);
  }

  Result<int64_t> Whole(const Json& json, const char* field, int64_t low, int64_t high,
                        const std::string& path) const {
    const auto at = json.find(field);
    if (at == json.end()) return Bad(path, "is missing");
    const bool whole = at->is_number_unsigned() || at->is_number_integer();
    const bool huge = at->is_number_unsigned() && at->get<uint64_t>() > static_cast<uint64_t>(high);
    if (!whole || huge || at->get<int64_t>() < low) {
      return Bad(path, "is " + at->dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60) +
                           ", must be a whole number from " + std::to_string(low) + " to " +
                           std::to_string(high));
    }
    return at->get<int64_t>();
  }

  Result<std::optional<double>> Seconds(const Json& json, const char* field, const std::string& path) const {
    const auto at = json.find(field);
    if (at == json.end() || at->is_null()) return std::optional<double>();
    if (!at->is_number()) return Bad(path, "is no number");
    const double value = at->get<double>();
    if (!(value >= 0) || value > kMaxSeconds)
      return Bad(path, "is " + at->dump() + ", must be seconds from 0 to 1e8");
    return std::optional<double>(value);
  }

  Status ReadRequests(const Json& json, const std::string& path, const std::string& agent, double origin) {
    const auto list = json.find("requests");
    if (list == json.end() || !list->is_array()) return Bad(path, "is missing or no list");
    std::optional<size_t> last;                      // of this agent
    std::vector<std::pair<double, size_t>> running;  // sub-agents: recorded end, last request
    double before = -1;
    for (size_t i = 0; i < list->size(); ++i) {
      const Json& item = (*list)[i];
      const std::string here = path + "[" + std::to_string(i) + "]";
      if (!item.is_object()) return Bad(here, "is no object");
      POOLMARK_ASSIGN_OR_RETURN(const auto t, Seconds(item, "t", here + ".t"));
      if (!t) return Bad(here + ".t", "is missing");
      if (*t < before)
        return Bad(here + ".t", "runs backwards: " + std::to_string(*t) + " after " + std::to_string(before));
      before = *t;
      const auto type = item.find("type");
      if (type == item.end() || !type->is_string()) return Bad(here + ".type", "is missing or no text");
      if (*type == "subagent") {
        POOLMARK_RETURN_IF_ERROR(ReadSubAgent(item, here, agent, origin + *t, last, &running));
      } else if (*type == "n" || *type == "s") {
        POOLMARK_RETURN_IF_ERROR(ReadRequest(item, here, agent, origin + *t, &last, &running));
      } else {
        return Bad(here + ".type", "is " + type->dump() + ", must be n, s or subagent");
      }
    }
    return absl::OkStatus();
  }

  Status ReadSubAgent(const Json& item, const std::string& here, const std::string& parent, double start,
                      std::optional<size_t> last, std::vector<std::pair<double, size_t>>* running) {
    if (parent.find('/') != std::string::npos) return Bad(here, "is nested more than two deep");
    const auto name = item.find("agent_id");
    std::string agent = name != item.end() && name->is_string() ? name->get<std::string>() : "agent";
    if (agent.empty()) return Bad(here + ".agent_id", "is empty");
    agent = (parent.empty() ? "" : parent + "/") + agent;
    const size_t first = session_.requests.size();
    POOLMARK_RETURN_IF_ERROR(ReadRequests(item, here + ".requests", agent, start));
    if (session_.requests.size() == first) return absl::OkStatus();
    if (last) places_[first].after.push_back(*last);
    POOLMARK_ASSIGN_OR_RETURN(const auto duration, Seconds(item, "duration_ms", here + ".duration_ms"));
    double end = duration ? start + *duration / 1e3 : start;
    for (size_t i = first; i < places_.size(); ++i) end = std::max(end, places_[i].end);
    running->push_back({end, session_.requests.size() - 1});
    return absl::OkStatus();
  }

  Status ReadRequest(const Json& item, const std::string& here, const std::string& agent, double start,
                     std::optional<size_t>* last, std::vector<std::pair<double, size_t>>* running) {
    AgenticRequest request;
    request.agent = agent;
    request.start_seconds = start;
    POOLMARK_ASSIGN_OR_RETURN(request.input_tokens, Whole(item, "in", 1, kMaxTokens, here + ".in"));
    POOLMARK_ASSIGN_OR_RETURN(request.output_tokens, Whole(item, "out", 0, kMaxTokens, here + ".out"));
    POOLMARK_ASSIGN_OR_RETURN(request.answer_seconds, Seconds(item, "api_time", here + ".api_time"));
    POOLMARK_ASSIGN_OR_RETURN(request.think_seconds, Seconds(item, "think_time", here + ".think_time"));
    std::vector<uint64_t> blocks;
    const auto ids = item.find("hash_ids");
    if (ids == item.end() || !ids->is_array()) return Bad(here + ".hash_ids", "is missing or no list");
    for (const Json& id : *ids) {
      if (!id.is_number_unsigned())
        return Bad(here + ".hash_ids", "holds " + id.dump().substr(0, 40) + ", must be whole numbers from 0");
      blocks.push_back(id.get<uint64_t>());
    }
    const auto size = static_cast<int64_t>(session_.block_tokens);
    const auto count = static_cast<int64_t>(blocks.size());
    if (count != request.input_tokens / size && count != (request.input_tokens + size - 1) / size) {
      return Bad(here + ".hash_ids", "has " + std::to_string(count) + " blocks of " + std::to_string(size) +
                                         ", in is " + std::to_string(request.input_tokens) + " tokens");
    }
    Place place;
    place.end = start + request.answer_seconds.value_or(0);
    if (*last) {
      place.after.push_back(**last);
      place.timed = session_.requests[**last].answer_seconds.has_value();
    }
    std::erase_if(*running, [&](const auto& sub) {
      if (sub.first > start) return false;
      place.after.push_back(sub.second);
      return true;
    });
    if (*last)
      Share(**last, blocks, &request);
    else
      request.blocks = blocks;
    stored_ += request.blocks.size();
    if (stored_ > kMaxStoredBlocks)
      return InvalidInput(where_,
                          here + ".hash_ids makes the file too big: more than " +
                              std::to_string(kMaxStoredBlocks) + " different blocks",
                          "read a part of it with limit");
    *last = session_.requests.size();
    full_[agent] = std::move(blocks);
    session_.requests.push_back(std::move(request));
    places_.push_back(std::move(place));
    return absl::OkStatus();
  }

  // Keeps only the blocks after those that the agent's request before began with too.
  void Share(size_t base, const std::vector<uint64_t>& blocks, AgenticRequest* request) {
    const auto& before = full_[request->agent];
    const auto end = std::mismatch(blocks.begin(), blocks.end(), before.begin(), before.end()).first;
    request->base = static_cast<int32_t>(base);
    request->shared = static_cast<uint32_t>(end - blocks.begin());
    request->blocks.assign(end, blocks.end());
  }

  // By start, with indices following.
  AgenticSession Ordered() {
    std::vector<size_t> order(session_.requests.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return session_.requests[a].start_seconds < session_.requests[b].start_seconds;
    });
    std::vector<uint32_t> rank(order.size());
    for (size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<uint32_t>(i);
    AgenticSession out = session_;
    for (size_t i = 0; i < order.size(); ++i) {
      AgenticRequest& request = out.requests[i];
      request = std::move(session_.requests[order[i]]);
      if (request.base >= 0) request.base = static_cast<int32_t>(rank[static_cast<size_t>(request.base)]);
      double free = 0;
      for (const size_t before : places_[order[i]].after) {
        request.after.push_back(rank[before]);
        free = std::max(free, places_[before].end);
      }
      // From the end of all it waits for, which is what the replay waits for too.
      if (!request.after.empty() && request.start_seconds >= free && places_[order[i]].timed) {
        request.think_seconds = request.start_seconds - free;
      }
    }
    return out;
  }

  std::string where_;
  AgenticSession session_;
  std::vector<Place> places_;
  std::map<std::string, std::vector<uint64_t>> full_;  // blocks of the last request of each agent
  uint64_t stored_;
};

}  // namespace

Result<std::vector<AgenticSession>> ReadAgentic(const std::string& path, std::optional<int64_t> limit) {
  POOLMARK_ASSIGN_OR_RETURN(auto lines, LineReader::Open(path, kMaxLine));
  std::vector<AgenticSession> sessions;
  std::string text;
  uint64_t stored = 0, requests = 0;
  while (!limit || sessions.size() < static_cast<uint64_t>(*limit)) {
    POOLMARK_ASSIGN_OR_RETURN(const bool more, lines->Next(&text));
    if (!more) break;
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = path + ":" + std::to_string(lines->line_number());
    JsonLimits limits;
    limits.max_bytes = kMaxLine;
    POOLMARK_ASSIGN_OR_RETURN(const Json json, ParseJson(text, where, limits));
    SessionReader reader(where, stored);
    POOLMARK_ASSIGN_OR_RETURN(AgenticSession session, reader.Read(json));
    stored = reader.stored();
    requests += session.requests.size();
    if (requests > kMaxRequests)
      return InvalidInput(where, "the file has more than " + std::to_string(kMaxRequests) + " requests",
                          "read a part of it with limit");
    sessions.push_back(std::move(session));
  }
  if (sessions.empty())
    return InvalidInput(path, "holds no session", "one JSON object a line: docs/workloads.md");
  return sessions;
}

}  // namespace poolmark::workload
