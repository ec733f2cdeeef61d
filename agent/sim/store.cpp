#include "agent/sim/store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <mutex>

#include "agent/sim/resp.h"
#include "common/base/digest.h"
#include "common/base/files.h"

namespace poolmark::sim {
namespace {

using namespace std::chrono_literals;

constexpr auto kTimeout = 3s;
constexpr size_t kBatch = 256;

class RedisStore : public SharedStore {
 public:
  explicit RedisStore(StoreOptions options) : options_(std::move(options)) {}

  Result<size_t> FoundFromFront(const std::vector<BlockHash>& hashes) override {
    std::lock_guard lock(mutex_);
    size_t found = 0;
    for (size_t from = 0; from < hashes.size(); from += kBatch) {
      std::vector<std::string> keys = Keys(hashes, from);
      std::vector<std::vector<std::string_view>> commands;
      for (const std::string& key : keys) commands.push_back({"EXISTS", key});
      POOLMARK_ASSIGN_OR_RETURN(std::vector<RespValue> replies, Call(commands));
      for (const RespValue& reply : replies) {
        if (reply.kind != RespValue::Kind::kInteger || reply.integer != 1) return found;
        ++found;
      }
    }
    return found;
  }

  Result<std::vector<std::optional<std::string>>> Get(const std::vector<BlockHash>& hashes) override {
    std::lock_guard lock(mutex_);
    std::vector<std::optional<std::string>> blocks;
    for (size_t from = 0; from < hashes.size(); from += kBatch) {
      std::vector<std::string> keys = Keys(hashes, from);
      std::vector<std::string_view> command = {"MGET"};
      command.insert(command.end(), keys.begin(), keys.end());
      POOLMARK_ASSIGN_OR_RETURN(std::vector<RespValue> replies, Call({command}));
      RespValue& reply = replies.front();
      if (reply.kind != RespValue::Kind::kArray || reply.items.size() != keys.size()) {
        return Unavailable(options_.redis_url, "MGET failed: " + reply.text.substr(0, 200));
      }
      for (RespValue& item : reply.items) {
        blocks.push_back(item.kind == RespValue::Kind::kBulk ? std::optional(std::move(item.text))
                                                             : std::nullopt);
      }
    }
    return blocks;
  }

  Status Put(BlockHash hash, const std::string& bytes) override {
    std::lock_guard lock(mutex_);
    std::string key = options_.prefix + HashName(hash);
    POOLMARK_ASSIGN_OR_RETURN(std::vector<RespValue> replies, Call({{"SET", key, bytes}}));
    if (replies.front().kind == RespValue::Kind::kError) {
      return Unavailable(options_.redis_url, "SET failed: " + replies.front().text.substr(0, 200));
    }
    return absl::OkStatus();
  }

  Result<uint64_t> Clear() override {
    std::lock_guard lock(mutex_);
    uint64_t gone = 0;
    std::string cursor = "0";
    std::string pattern = options_.prefix + "*";
    do {
      POOLMARK_ASSIGN_OR_RETURN(std::vector<RespValue> replies,
                                Call({{"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"}}));
      RespValue& scan = replies.front();
      if (scan.kind != RespValue::Kind::kArray || scan.items.size() != 2) {
        return Unavailable(options_.redis_url, "SCAN failed: " + scan.text.substr(0, 200));
      }
      cursor = scan.items[0].text;
      std::vector<std::string_view> command = {"UNLINK"};
      for (const RespValue& key : scan.items[1].items) command.push_back(key.text);
      if (command.size() > 1) {
        POOLMARK_ASSIGN_OR_RETURN(std::vector<RespValue> removed, Call({command}));
        gone += static_cast<uint64_t>(removed.front().integer);
      }
    } while (cursor != "0");
    return gone;
  }

 private:
  std::vector<std::string> Keys(const std::vector<BlockHash>& hashes, size_t from) const {
    std::vector<std::string> keys;
    for (size_t i = from; i < hashes.size() && i < from + kBatch; ++i)
      keys.push_back(options_.prefix + HashName(hashes[i]));
    return keys;
  }

  Result<std::vector<RespValue>> Call(const std::vector<std::vector<std::string_view>>& commands) {
    if (client_ == nullptr) {
      POOLMARK_ASSIGN_OR_RETURN(client_,
                                RedisClient::Connect(options_.redis_url, options_.password, kTimeout));
    }
    auto replies = client_->Pipeline(commands);
    if (!replies.ok()) client_.reset();
    return replies;
  }

  StoreOptions options_;
  std::mutex mutex_;  // guards client_; held during a call
  std::unique_ptr<RedisClient> client_;
};

class DirectoryStore : public SharedStore {
 public:
  explicit DirectoryStore(std::string directory) : directory_(std::move(directory)) {}

  Result<size_t> FoundFromFront(const std::vector<BlockHash>& hashes) override {
    size_t found = 0;
    while (found < hashes.size() && FileExists(Path(hashes[found]))) ++found;
    return found;
  }

  Result<std::vector<std::optional<std::string>>> Get(const std::vector<BlockHash>& hashes) override {
    std::vector<std::optional<std::string>> blocks;
    for (BlockHash hash : hashes) {
      auto bytes = ReadFile(Path(hash), 64 << 20);
      blocks.push_back(bytes.ok() ? std::optional(std::move(*bytes)) : std::nullopt);
    }
    return blocks;
  }

  // Renamed into place, so that no reader sees half a block; not synced: a cache may be lost.
  Status Put(BlockHash hash, const std::string& bytes) override {
    std::string path = Path(hash);
    if (FileExists(path)) return absl::OkStatus();
    POOLMARK_RETURN_IF_ERROR(MakeDirs(path.substr(0, path.rfind('/'))));
    std::string unique = path + "." + RandomHex(6) + ".tmp";
    POOLMARK_RETURN_IF_ERROR(AppendFile(unique, bytes, false));
    if (rename(unique.c_str(), path.c_str()) != 0) {
      int error = errno;
      unlink(unique.c_str());
      return FromErrno(path, "renaming into place", error);
    }
    return absl::OkStatus();
  }

  Result<uint64_t> Clear() override {
    if (!FileExists(directory_)) return 0;
    POOLMARK_ASSIGN_OR_RETURN(std::vector<std::string> files, ListTree(directory_));
    uint64_t gone = 0;
    for (const std::string& file : files) {
      if (file.size() > 3 && file.compare(file.size() - 3, 3, ".kv") == 0) {
        gone += unlink(JoinPath(directory_, file).c_str()) == 0;
      }
    }
    return gone;
  }

 private:
  std::string Path(BlockHash hash) const {
    std::string name = HashName(hash);
    return directory_ + "/" + name.substr(0, 2) + "/" + name + ".kv";
  }
  std::string directory_;
};

}  // namespace

Result<std::unique_ptr<SharedStore>> MakeStore(const StoreOptions& options) {
  if (!options.redis_url.empty() && !options.directory.empty()) {
    return InvalidInput("--shared-store", "a Redis store and a shared directory at once", "choose one");
  }
  if (!options.redis_url.empty()) return std::make_unique<RedisStore>(options);
  POOLMARK_RETURN_IF_ERROR(MakeDirs(options.directory));
  return std::make_unique<DirectoryStore>(options.directory);
}

}  // namespace poolmark::sim
