#include "tests/component/sim/sim_process.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "agent/sim/resp.h"
#include "common/base/json.h"
#include "tests/support/shared_data.h"
#include "tests/support/waiting.h"

extern char** environ;

namespace poolmark::test {

using namespace std::chrono_literals;

Child::Child(const std::string& program, std::vector<std::string> arguments,
             std::vector<std::string> environment) {
  int pipes[2];
  REQUIRE(pipe2(pipes, O_CLOEXEC) == 0);
  out_ = pipes[0];
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<char*> env;
  for (char** entry = environ; *entry != nullptr; ++entry) env.push_back(*entry);
  for (std::string& entry : environment) env.push_back(entry.data());
  env.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipes[1], 1);
  int error = posix_spawnp(&pid_, program.c_str(), &actions, nullptr, argv.data(), env.data());
  posix_spawn_file_actions_destroy(&actions);
  close(pipes[1]);
  REQUIRE(error == 0);
}

Child::~Child() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(out_);
}

std::string Child::Line(const std::string& prefix) {
  auto limit = std::chrono::steady_clock::now() + 10s;
  while (true) {
    for (size_t at = 0; at < text_.size();) {
      size_t end = text_.find('\n', at);
      if (end == std::string::npos) break;
      if (text_.compare(at, prefix.size(), prefix) == 0)
        return text_.substr(at + prefix.size(), end - at - prefix.size());
      at = end + 1;
    }
    pollfd p{out_, POLLIN, 0};
    char buffer[1024];
    ssize_t n = 0;
    if (std::chrono::steady_clock::now() > limit || poll(&p, 1, 10000) != 1 ||
        (n = read(out_, buffer, sizeof buffer)) <= 0) {
      FAIL("no line '" << prefix << "' in: " << text_);
    }
    text_.append(buffer, static_cast<size_t>(n));
  }
}

void Child::Signal(int number) {
  if (pid_ > 0) kill(pid_, number);
}

std::optional<int> Child::Wait(int milliseconds) {
  auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > limit) return std::nullopt;
    std::this_thread::sleep_for(2ms);
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Sim::Sim(std::vector<std::string> arguments, std::vector<std::string> environment) {
  child_ =
      std::make_unique<Child>(BuiltProgram("poolmark-sim"), std::move(arguments), std::move(environment));
  std::string line = child_->Line("listening ");
  port_ = line.substr(line.rfind(':') + 1);
}

http::Response Fetch(const std::string& method, const std::string& url, const std::string& body) {
  http::Request request;
  request.method = method;
  request.url = *http::ParseUrl(url);
  request.body = body;
  request.timeout = 20s;
  auto response = http::MakeClient()->Send(request);
  if (!response.ok()) {
    http::Response none;
    none.body = std::string(response.status().message());
    return none;
  }
  return *response;
}

http::Response Sim::Get(const std::string& path) {
  return Fetch("GET", url() + path);
}
http::Response Sim::Post(const std::string& path, const std::string& body) {
  return Fetch("POST", url() + path, body);
}

int64_t Sim::Metric(const std::string& name, const std::string& labels) {
  std::string page = Get("/metrics").body;
  double sum = 0;
  for (size_t at = 0; at < page.size();) {
    size_t end = page.find('\n', at);
    std::string line = page.substr(at, end - at);
    at = end + 1;
    size_t name_end = line.find_first_of("{ ");
    if (line.compare(0, name_end, name) != 0 || line.find(labels) == std::string::npos) continue;
    sum += std::stod(line.substr(line.rfind(' ')));
  }
  return std::llround(sum);
}

std::unique_ptr<Redis> Redis::Start(const std::string& directory) {
  if (access("/usr/bin/redis-server", X_OK) != 0) {
    WARN("skipped: no redis-server");
    return nullptr;
  }
  auto redis = std::make_unique<Redis>();
  redis->port_ = std::to_string(FreePort());
  redis->child_ = std::make_unique<Child>(
      "/usr/bin/redis-server",
      std::vector<std::string>{"--port", redis->port_, "--bind", "127.0.0.1", "--save", "", "--appendonly",
                               "no", "--dir", directory});
  auto limit = std::chrono::steady_clock::now() + 10s;
  while (!sim::RedisClient::Connect(redis->url(), "", 1s).ok()) {
    REQUIRE(std::chrono::steady_clock::now() < limit);
    std::this_thread::sleep_for(10ms);
  }
  return redis;
}

std::string Prompt(int seed, int words) {
  std::string text = "start" + std::to_string(seed);
  for (int i = 0; i < words; ++i) text += " w" + std::to_string(i % 90);
  return text;
}

std::string Completion(const std::string& prompt, int max_tokens, const std::string& extra) {
  return "{\"prompt\":\"" + prompt + "\",\"max_tokens\":" + std::to_string(max_tokens) +
         (extra.empty() ? "" : "," + extra) + "}";
}

int64_t NumberAt(const std::string& json, const std::string& path) {
  auto parsed = ParseJson(json);
  if (!parsed.ok()) return -1;
  auto pointer = Json::json_pointer("/" + path);
  return parsed->contains(pointer) ? parsed->at(pointer).get<int64_t>() : -1;
}

std::string TextAt(const std::string& json, const std::string& path) {
  auto parsed = ParseJson(json);
  if (!parsed.ok()) return "";
  auto pointer = Json::json_pointer("/" + path);
  return parsed->contains(pointer) && parsed->at(pointer).is_string() ? parsed->at(pointer).get<std::string>()
                                                                      : "";
}

}  // namespace poolmark::test
