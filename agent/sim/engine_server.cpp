#include "agent/sim/engine_server.h"

#include <signal.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include "agent/sim/engine.h"
#include "agent/sim/process.h"
#include "common/base/log.h"
#include "common/base/version.h"

namespace poolmark::sim {
namespace {

using Writer = std::shared_ptr<http::ResponseWriter>;
using http::ServerRequest;

constexpr const char* kJson = "application/json";
const http::Headers kServer = {{"Server", "poolmark-sim (simulated)"}};

// Routes, and faults of the whole process.
class EngineServer {
 public:
  explicit EngineServer(const EngineOptions& options) : options_(options), faults_(options.seed) {}

  int Run();

 private:
  void Handle(const ServerRequest& request, Writer writer);
  void Generate(const ServerRequest& request, const Writer& writer, bool chat);
  void Metrics(const Writer& writer);
  void Reset(const ServerRequest& request, const Writer& writer);
  void FaultApi(const ServerRequest& request, const Writer& writer);
  void Apply(const Fault& fault);
  void Later(Nanoseconds span, std::function<void()> what);
  void RunLater();
  void Reply(const Writer& writer, int status, std::string json) {
    writer->Send(status, kJson, std::move(json), kServer);
  }
  void ReplyError(const Writer& writer, const ApiError& error) {
    Reply(writer, error.status, error.ToJson());
  }
  bool Ready() const { return RealClock().Steady() - started_ >= options_.ready_after; }

  const EngineOptions options_;
  FaultBox faults_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<http::Server> server_;
  const Nanoseconds started_ = RealClock().Steady();
  const int64_t created_ = RealClock().Wall().count() / 1'000'000'000;
  std::atomic<bool> dead_ = false;  // answers nothing any more
  std::atomic<bool> ignore_sigterm_ = false;

  std::mutex mutex_;  // guards the rest
  std::condition_variable wake_;
  std::vector<Writer> unanswered_;
  std::multimap<Nanoseconds, std::function<void()>> later_;
  bool stopping_ = false;
  std::thread timer_;
};

bool HasFlag(const ServerRequest& request, std::string_view name) {
  std::string_view query = request.query;
  while (!query.empty()) {
    size_t end = query.find('&');
    std::string_view pair = query.substr(0, end);
    if (pair.substr(0, pair.find('=')) == name) {
      std::string_view value = pair.size() > name.size() ? pair.substr(name.size() + 1) : "true";
      return value == "true" || value == "1" || value == "True";
    }
    if (end == std::string_view::npos) break;
    query.remove_prefix(end + 1);
  }
  return false;
}

void EngineServer::Generate(const ServerRequest& request, const Writer& writer, bool chat) {
  if (!Ready()) return ReplyError(writer, {503, "ServiceUnavailable", "the model is still loading", ""});
  GenerateRequest parsed;
  if (auto error = ParseGenerate(request.body, chat, &parsed)) return ReplyError(writer, *error);
  engine_->Submit(std::move(parsed), writer);
}

void EngineServer::Metrics(const Writer& writer) {
  constexpr const char* kText = "text/plain; version=0.0.4; charset=utf-8";
  std::string what;
  if (auto fault = faults_.Find("metrics")) what = fault->Text("what", "error");
  if (what == "error") return ReplyError(writer, {500, "InternalServerError", "no metrics (simulated)", ""});
  if (what == "empty") return writer->Send(200, kText, "", kServer);
  if (what == "html") return writer->Send(200, "text/html", "<html><body>metrics</body></html>\n", kServer);
  std::string page = engine_->MetricsPage();
  if (what == "slow") {
    Later(std::chrono::seconds(30), [writer, page] { writer->Send(200, kText, page, kServer); });
    return;
  }
  writer->Send(200, kText, std::move(page), kServer);
}

void EngineServer::Reset(const ServerRequest& request, const Writer& writer) {
  bool external = HasFlag(request, "reset_external");
  bool lower = external || !HasFlag(request, "gpu_only");
  engine_->ClearCaches(lower, external, [this, writer](Engine::ClearReport report) {
    bool ok = report.blocks_in_use == 0 && report.error.empty();
    std::string json = "{\"reset\":" + std::string(ok ? "true" : "false") +
                       ",\"blocks_in_use\":" + std::to_string(report.blocks_in_use) +
                       ",\"store_keys_removed\":" + std::to_string(report.store_keys) + ",\"error\":";
    AppendJsonString(report.error, &json);
    Reply(writer, ok ? 200 : 409, json + "}");
  });
}

void EngineServer::FaultApi(const ServerRequest& request, const Writer& writer) {
  if (request.method == "DELETE") {
    faults_.Clear();
  } else if (request.method == "POST") {
    std::string text;
    if (auto error = ParseFaultBody(request.body, &text)) return ReplyError(writer, *error);
    auto fault = ParseFault(text);
    if (!fault.ok()) {
      return ReplyError(writer, {400, "BadRequestError", std::string(fault.status().message()), "fault"});
    }
    // The answer goes first: the fault may end the process.
    Later(std::chrono::milliseconds(20), [this, fault = *fault] { Apply(fault); });
    return Reply(writer, 202, "{\"accepted\":true,\"simulated\":true}");
  }
  std::string json = "{\"faults\":[";
  bool first = true;
  for (const std::string& fault : faults_.List()) {
    if (!first) json += ',';
    first = false;
    AppendJsonString(fault, &json);
  }
  Reply(writer, 200, json + "]}");
}

void EngineServer::Handle(const ServerRequest& request, Writer writer) {
  if (dead_) {
    std::lock_guard lock(mutex_);
    unanswered_.push_back(std::move(writer));
    return;
  }
  const std::string& path = request.path;
  bool get = request.method == "GET" || request.method == "HEAD";
  bool post = request.method == "POST";
  if (path == "/v1/chat/completions" && post) return Generate(request, writer, true);
  if (path == "/v1/completions" && post) return Generate(request, writer, false);
  if (path == "/health" && get) {
    if (!Ready()) return ReplyError(writer, {503, "ServiceUnavailable", "the model is still loading", ""});
    return writer->Send(200, "", "", kServer);
  }
  if (path == "/metrics" && get) return Metrics(writer);
  if (path == "/v1/models" && get) {
    return Reply(writer, 200, ModelsReply(options_.format.model, created_, options_.max_model_len));
  }
  if (path == "/version" && get) {
    return Reply(writer, 200,
                 "{\"version\":\"0.32.0+sim\",\"simulated\":true,\"poolmark_sim\":\"" + Version() + "\"}");
  }
  if (path == "/load" && get) {
    return Reply(writer, 200, "{\"server_load\":" + std::to_string(engine_->in_flight()) + "}");
  }
  if (path == "/tokenize" && post) {
    std::vector<Token> tokens;
    bool strings = false;
    if (auto error = ParseTokenize(request.body, &tokens, &strings)) return ReplyError(writer, *error);
    return Reply(writer, 200, TokenizeReply(tokens, strings, options_.max_model_len));
  }
  if (path == "/detokenize" && post) {
    std::vector<Token> tokens;
    if (auto error = ParseDetokenize(request.body, &tokens)) return ReplyError(writer, *error);
    return Reply(writer, 200, DetokenizeReply(tokens));
  }
  if (path == "/reset_prefix_cache" && post) return Reset(request, writer);
  if (path == "/flush" && post) {
    engine_->Flush([this, writer] { Reply(writer, 200, "{\"flushed\":true}"); });
    return;
  }
  if (path == "/sim/fault") return FaultApi(request, writer);
  ReplyError(writer,
             {404, "NotFoundError", "no " + request.method + " " + path.substr(0, 200) + " here", ""});
}

void EngineServer::Later(Nanoseconds span, std::function<void()> what) {
  std::lock_guard lock(mutex_);
  later_.emplace(RealClock().Steady() + span, std::move(what));
  wake_.notify_all();
}

void EngineServer::RunLater() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    Nanoseconds now = RealClock().Steady();
    if (later_.empty()) {
      wake_.wait(lock);
    } else if (later_.begin()->first > now) {
      wake_.wait_for(lock, later_.begin()->first - now);
    } else {
      std::function<void()> what = std::move(later_.begin()->second);
      later_.erase(later_.begin());
      lock.unlock();
      what();
      lock.lock();
    }
  }
}

void EngineServer::Apply(const Fault& fault) {
  if (auto after = fault.Duration("after")) {
    Fault now = fault;
    now.values.erase("after");
    Later(*after, [this, now] { Apply(now); });
    return;
  }
  Log(LogLevel::kWarning, "sim.fault", {{"fault", fault.ToString()}});
  if (fault.kind == "crash") {
    int number = static_cast<int>(fault.Number("signal", 0));
    // The signal may go to another thread: time for it to arrive.
    if (number > 0 && kill(getpid(), number) == 0) std::this_thread::sleep_for(std::chrono::seconds(2));
    _exit(static_cast<int>(fault.Number("exit", 1)));
  } else if (fault.kind == "hang") {
    engine_->Hang();
    if (fault.Text("health", "ok") == "dead") dead_ = true;
  } else if (fault.kind == "ignore-sigterm") {
    ignore_sigterm_ = true;
  } else if (fault.kind == "detach") {
    ChildOptions child;
    child.ignore_sigterm = fault.Number("ignore_sigterm", 0) != 0;
    child.listen = fault.Number("listen", 0) != 0;
    for (int i = 0; i < static_cast<int>(fault.Number("count", 1)); ++i) {
      if (Status status = StartDetachedChild(child); !status.ok()) {
        Log(LogLevel::kError, "sim.child", {{"error", std::string(status.message())}});
      }
    }
  } else if (fault.kind == "counter-reset") {
    engine_->ResetCounters();
  } else if (fault.kind == "kv-format") {
    engine_->ChangeFormat(fault);
  } else if (fault.kind == "log-flood") {
    auto lines = static_cast<int64_t>(fault.Number("lines", 100000));
    for (int64_t i = 0; i < lines; ++i)
      std::fprintf(stderr, "flood %lld of log lines, simulated\n", static_cast<long long>(i));
  } else {
    faults_.Add(fault);
  }
}

int EngineServer::Run() {
  auto engine = Engine::Start(options_, &faults_);
  if (!engine.ok()) {
    std::fprintf(stderr, "poolmark-sim engine: %s\n", std::string(engine.status().message()).c_str());
    return 1;
  }
  engine_ = std::move(*engine);
  http::ServerOptions server_options;
  server_options.address = options_.host;
  server_options.port = static_cast<uint16_t>(options_.port);
  auto server = http::Server::Start(server_options, [this](const ServerRequest& request, Writer writer) {
    Handle(request, std::move(writer));
  });
  if (!server.ok()) {
    std::fprintf(stderr, "poolmark-sim engine: %s\n", std::string(server.status().message()).c_str());
    return 1;
  }
  server_ = std::move(*server);
  timer_ = std::thread([this] { RunLater(); });
  for (const Fault& fault : options_.faults) Apply(fault);
  AnnouncePort(options_.host, server_->port());
  if (engine_->transfer_port() != 0) std::printf("transfer %d\n", engine_->transfer_port());
  std::fflush(stdout);
  do {
    int number = WaitForSignal();
    Log(LogLevel::kInfo, "sim.signal", {{"signal", number}, {"ignored", static_cast<int>(ignore_sigterm_)}});
  } while (ignore_sigterm_);
  // What runs may end, what is computed is written; both within bounds.
  if (!engine_->Drain(options_.drain))
    Log(LogLevel::kWarning, "sim.drain", {{"in_flight", engine_->in_flight()}});
  auto flushed = std::make_shared<std::atomic<bool>>(false);
  engine_->Flush([flushed] { *flushed = true; });
  for (int i = 0; i < 200 && !*flushed; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  server_->Stop();
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  timer_.join();
  engine_.reset();
  return 0;
}

}  // namespace

int RunEngine(const EngineOptions& options) {
  EngineServer server(options);
  return server.Run();
}

}  // namespace poolmark::sim
