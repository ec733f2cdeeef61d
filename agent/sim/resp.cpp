#include "agent/sim/resp.h"

#include <charconv>
#include <optional>

#include "agent/sim/tcp.h"

namespace poolmark::sim {
namespace {

Status Malformed(const std::string& what) {
  return InvalidInput("redis", "the reply is no RESP: " + what, "is this the port of a Redis server?");
}

std::optional<int64_t> Number(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<size_t> Parse(std::string_view input, RespValue* value, const RespLimits& limits, int depth) {
  if (input.empty()) return 0;
  if (depth > limits.max_depth) return Malformed("nested too deep");
  size_t end = input.find("\r\n");
  if (end == std::string_view::npos) {
    if (input.size() > 65536) return Malformed("a line longer than 64 KiB");
    return 0;
  }
  std::string_view line = input.substr(1, end - 1);
  size_t used = end + 2;
  *value = {};
  switch (input.front()) {
    case '+':
    case '-':
      value->kind = input.front() == '+' ? RespValue::Kind::kSimple : RespValue::Kind::kError;
      value->text = line;
      return used;
    case ':': {
      std::optional<int64_t> number = Number(line);
      if (!number) return Malformed("a bad integer");
      value->kind = RespValue::Kind::kInteger;
      value->integer = *number;
      return used;
    }
    case '$': {
      std::optional<int64_t> length = Number(line);
      if (!length || *length < -1) return Malformed("a bad bulk length");
      if (*length > limits.max_bulk_bytes)
        return Malformed("a bulk of " + std::to_string(*length) + " bytes");
      if (*length == -1) return used;
      size_t bytes = static_cast<size_t>(*length);
      if (input.size() < used + bytes + 2) return 0;
      if (input.substr(used + bytes, 2) != "\r\n") return Malformed("a bulk does not end where it should");
      value->kind = RespValue::Kind::kBulk;
      value->text = input.substr(used, bytes);
      return used + bytes + 2;
    }
    case '*': {
      std::optional<int64_t> count = Number(line);
      if (!count || *count < -1 || *count > limits.max_items) return Malformed("a bad array length");
      if (*count == -1) return used;
      value->kind = RespValue::Kind::kArray;
      for (int64_t i = 0; i < *count; ++i) {
        RespValue item;
        POOLMARK_ASSIGN_OR_RETURN(size_t part, Parse(input.substr(used), &item, limits, depth + 1));
        if (part == 0) return 0;
        used += part;
        value->items.push_back(std::move(item));
      }
      return used;
    }
    default:
      return Malformed("a reply that starts with byte " +
                       std::to_string(static_cast<unsigned char>(input.front())));
  }
}

class TcpRedis : public RedisClient {
 public:
  explicit TcpRedis(TcpStream stream) : stream_(std::move(stream)) {}

  Result<std::vector<RespValue>> Pipeline(
      const std::vector<std::vector<std::string_view>>& commands) override {
    std::string out;
    for (const auto& words : commands) AppendCommand(words, &out);
    POOLMARK_RETURN_IF_ERROR(stream_.WriteAll(out));
    std::vector<RespValue> replies;
    replies.reserve(commands.size());
    while (replies.size() < commands.size()) {
      RespValue value;
      POOLMARK_ASSIGN_OR_RETURN(size_t used, ParseResp(std::string_view(buffer_).substr(start_), &value));
      if (used > 0) {
        start_ += used;
        replies.push_back(std::move(value));
        continue;
      }
      buffer_.erase(0, start_);
      start_ = 0;
      POOLMARK_RETURN_IF_ERROR(stream_.ReadSome(&buffer_));
    }
    buffer_.erase(0, start_);
    start_ = 0;
    return replies;
  }

 private:
  TcpStream stream_;
  std::string buffer_;
  size_t start_ = 0;
};

}  // namespace

Result<size_t> ParseResp(std::string_view input, RespValue* value, const RespLimits& limits) {
  return Parse(input, value, limits, 0);
}

void AppendCommand(const std::vector<std::string_view>& words, std::string* out) {
  *out += "*" + std::to_string(words.size()) + "\r\n";
  for (std::string_view word : words) {
    *out += "$" + std::to_string(word.size()) + "\r\n";
    out->append(word);
    *out += "\r\n";
  }
}

Result<std::unique_ptr<RedisClient>> RedisClient::Connect(const std::string& url, const std::string& password,
                                                          std::chrono::milliseconds timeout) {
  constexpr std::string_view kScheme = "redis://";
  std::string_view rest = url;
  if (rest.substr(0, kScheme.size()) != kScheme) {
    return InvalidInput(url, "the store's URL does not start with redis://", "write redis://host:port");
  }
  rest.remove_prefix(kScheme.size());
  std::string secret = password;
  if (size_t at = rest.rfind('@'); at != std::string_view::npos) {
    std::string_view login = rest.substr(0, at);
    size_t colon = login.find(':');
    secret = std::string(colon == std::string_view::npos ? login : login.substr(colon + 1));
    rest.remove_prefix(at + 1);
  }
  std::string database = "0";
  if (size_t slash = rest.find('/'); slash != std::string_view::npos) {
    if (slash + 1 < rest.size()) database = std::string(rest.substr(slash + 1));
    rest = rest.substr(0, slash);
  }
  POOLMARK_ASSIGN_OR_RETURN(TcpStream stream, TcpStream::Connect(std::string(rest), timeout));
  auto client = std::make_unique<TcpRedis>(std::move(stream));
  std::vector<std::vector<std::string_view>> hello;
  if (!secret.empty()) hello.push_back({"AUTH", secret});
  if (database != "0") hello.push_back({"SELECT", database});
  hello.push_back({"PING"});
  POOLMARK_ASSIGN_OR_RETURN(std::vector<RespValue> replies, client->Pipeline(hello));
  for (const RespValue& reply : replies) {
    if (reply.kind == RespValue::Kind::kError) {
      return Unavailable(std::string(rest), "the store refuses: " + reply.text.substr(0, 200));
    }
  }
  return std::unique_ptr<RedisClient>(std::move(client));
}

}  // namespace poolmark::sim
