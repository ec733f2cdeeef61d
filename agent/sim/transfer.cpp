#include "agent/sim/transfer.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "agent/sim/tcp.h"
#include "common/base/digest.h"

namespace poolmark::sim {
namespace {

using namespace std::chrono_literals;
constexpr size_t kMaxLine = 1 << 20;
constexpr size_t kMaxBlockBytes = 256 << 20;
constexpr size_t kMaxConnections = 64;

// Up to the line's end; what came behind it stays in `buffer`.
Result<std::string> ReadLine(TcpStream* stream, std::string* buffer) {
  for (;;) {
    size_t end = buffer->find('\n');
    if (end != std::string::npos) {
      std::string line = buffer->substr(0, end);
      buffer->erase(0, end + 1);
      return line;
    }
    if (buffer->size() > kMaxLine) return InvalidInput("hand-over", "a line longer than 1 MiB");
    POOLMARK_RETURN_IF_ERROR(stream->ReadSome(buffer));
  }
}

std::vector<std::string> Words(const std::string& line) {
  std::vector<std::string> words;
  for (size_t at = 0; at < line.size();) {
    size_t end = std::min(line.find(' ', at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// "0,3,4" or "-" for none.
bool ParseIndexes(const std::string& text, size_t bound, std::vector<size_t>* indexes) {
  if (text == "-") return true;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    size_t index = 0;
    auto [next, error] = std::from_chars(at, end, index);
    if (error != std::errc() || index >= bound) return false;
    indexes->push_back(index);
    if (next < end && *next != ',') return false;
    at = next + 1;
  }
  return indexes->size() <= bound;
}

}  // namespace

Result<std::unique_ptr<TransferServer>> TransferServer::Start(const std::string& host, int port) {
  std::unique_ptr<TransferServer> server(new TransferServer());
  server->port_ = port;
  POOLMARK_ASSIGN_OR_RETURN(server->listener_, ListenTcp(host, &server->port_));
  server->engine_id_ = NewUuid();
  server->acceptor_ = std::thread([raw = server.get()] { raw->Accept(); });
  return server;
}

TransferServer::~TransferServer() {
  stopping_ = true;
  if (listener_ >= 0) shutdown(listener_, SHUT_RDWR);
  if (acceptor_.joinable()) acceptor_.join();
  for (Connection& connection : connections_) {
    shutdown(connection.fd, SHUT_RDWR);
    connection.thread.join();
    close(connection.fd);
  }
  if (listener_ >= 0) close(listener_);
}

void TransferServer::JoinFinished() {
  for (auto at = connections_.begin(); at != connections_.end();) {
    if (!at->done) {
      ++at;
      continue;
    }
    at->thread.join();
    close(at->fd);
    at = connections_.erase(at);
  }
}

void TransferServer::Accept() {
  while (!stopping_) {
    int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    JoinFinished();
    if (fd < 0) {
      if (!stopping_) std::this_thread::sleep_for(10ms);  // out of descriptors, mostly
      continue;
    }
    if (stopping_ || connections_.size() >= kMaxConnections) {
      close(fd);
      continue;
    }
    Connection& connection = connections_.emplace_back();
    connection.fd = fd;
    connection.thread = std::thread([this, &connection] {
      Serve(connection.fd);
      shutdown(connection.fd, SHUT_RDWR);
      connection.done = true;
    });
  }
}

void TransferServer::Serve(int fd) {
  TcpStream stream(dup(fd), "reader", 10s);
  std::string buffer;
  while (!stopping_) {
    auto line = ReadLine(&stream, &buffer);
    if (!line.ok()) break;
    std::vector<std::string> words = Words(*line);
    if (words.size() != 4 || words[0] != "PULL") {
      (void)stream.WriteAll("NO malformed request\n");
      break;
    }
    std::shared_ptr<const HeldBlocks> held;
    {
      std::lock_guard lock(mutex_);
      auto found = held_.find(words[2]);
      if (words[1] == engine_id_ && found != held_.end()) held = found->second;
    }
    std::vector<size_t> indexes;
    if (held == nullptr) {
      if (!stream.WriteAll("NO unknown engine or request, or its time is over\n").ok()) break;
      continue;
    }
    if (!ParseIndexes(words[3], held->hashes.size(), &indexes)) {
      (void)stream.WriteAll("NO bad block indexes\n");
      break;
    }
    Status sent = stream.WriteAll("OK " + std::to_string(indexes.size()) + "\n");
    for (size_t i = 0; i < indexes.size() && sent.ok(); ++i) {
      std::string bytes = EncodeBlock(held->format, held->hashes[indexes[i]], held->block_bytes);
      uint64_t size = bytes.size();
      sent = stream.WriteAll(std::string_view(reinterpret_cast<const char*>(&size), sizeof size));
      if (sent.ok()) sent = stream.WriteAll(bytes);
    }
    if (!sent.ok()) break;
    auto done = ReadLine(&stream, &buffer);
    if (!done.ok() || *done != "DONE") break;
    std::lock_guard lock(mutex_);
    held_.erase(words[2]);
  }
}

void TransferServer::Hold(const std::string& request_id, HeldBlocks blocks) {
  std::lock_guard lock(mutex_);
  held_[request_id] = std::make_shared<const HeldBlocks>(std::move(blocks));
}

uint64_t TransferServer::Expire(Nanoseconds now) {
  std::lock_guard lock(mutex_);
  return std::erase_if(held_, [now](const auto& entry) { return entry.second->until <= now; });
}

size_t TransferServer::held() const {
  std::lock_guard lock(mutex_);
  return held_.size();
}

Result<std::vector<std::string>> PullBlocks(const std::string& host, int port, const std::string& engine_id,
                                            const std::string& request_id,
                                            const std::vector<size_t>& indexes) {
  std::string where = host + ":" + std::to_string(port);
  for (const std::string* word : {&engine_id, &request_id}) {
    if (word->empty() || word->find_first_of(" \r\n") != std::string::npos) {
      return InvalidInput(where, "the hand-over names no engine or request");
    }
  }
  POOLMARK_ASSIGN_OR_RETURN(TcpStream stream, TcpStream::Connect(where, 10s));
  std::string list;
  for (size_t index : indexes) list += (list.empty() ? "" : ",") + std::to_string(index);
  POOLMARK_RETURN_IF_ERROR(
      stream.WriteAll("PULL " + engine_id + " " + request_id + " " + (list.empty() ? "-" : list) + "\n"));
  std::string buffer;
  POOLMARK_ASSIGN_OR_RETURN(std::string line, ReadLine(&stream, &buffer));
  if (line != "OK " + std::to_string(indexes.size())) {
    return Unavailable(where, "the prefill engine refuses: " + line.substr(0, 200));
  }
  auto take = [&](char* out, size_t bytes) -> Status {
    size_t have = std::min(bytes, buffer.size());
    std::memcpy(out, buffer.data(), have);
    buffer.erase(0, have);
    return stream.ReadExactly(out + have, bytes - have);
  };
  std::vector<std::string> blocks;
  for (size_t i = 0; i < indexes.size(); ++i) {
    uint64_t size = 0;
    POOLMARK_RETURN_IF_ERROR(take(reinterpret_cast<char*>(&size), sizeof size));
    if (size > kMaxBlockBytes) return InvalidInput(where, "a block of " + std::to_string(size) + " bytes");
    std::string bytes(size, '\0');
    POOLMARK_RETURN_IF_ERROR(take(bytes.data(), size));
    blocks.push_back(std::move(bytes));
  }
  POOLMARK_RETURN_IF_ERROR(stream.WriteAll("DONE\n"));
  return blocks;
}

}  // namespace poolmark::sim
