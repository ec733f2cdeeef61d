#include "agent/sim/router.h"

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include "agent/sim/api.h"
#include "agent/sim/process.h"
#include "agent/sim/router_body.h"
#include "agent/sim/router_state.h"
#include "agent/sim/upstream.h"
#include "common/base/digest.h"
#include "common/base/log.h"
#include "common/http/request_parser.h"
#include "common/http/server.h"

namespace poolmark::sim {
namespace {

using namespace std::chrono_literals;
using Writer = std::shared_ptr<http::ResponseWriter>;
constexpr int kAttempts = 3;
constexpr size_t kHashUnit = 16;

double Now() {
  return static_cast<double>(RealClock().Steady().count()) / 1e9;
}

void ReplyError(const Writer& writer, int status, const std::string& type, const std::string& message) {
  writer->Send(status, "application/json", ApiError{status, type, message, ""}.ToJson(),
               {{"Server", "poolmark-sim router (simulated)"}});
}

// One client request on its way through the router.
struct Relay {
  std::string method;
  std::string target;
  std::string route;
  http::Headers headers;
  std::string body;
  Writer writer;
  std::vector<model::BlockHash> blocks;
  std::string session;
  double started = Now();
  int attempts = 0;
  // Of the answer.
  int status = 0;
  std::string content_type;
  bool streaming = false;
  bool head_seen = false;
  std::string whole;
};

class Router {
 public:
  explicit Router(const RouterOptions& options)
      : options_(options),
        disaggregated_(options.disaggregated || (options.workers.empty() && !options.prefill.empty())) {}
  int Run();

 private:
  using RelayPtr = std::shared_ptr<Relay>;
  Status Start();
  void Handle(const http::ServerRequest& request, Writer writer);
  bool Own(const http::ServerRequest& request, const Writer& writer);
  void Forward(const RelayPtr& relay, WorkerPool* pool);
  void Prefill(const RelayPtr& relay);
  void Finished(const RelayPtr& relay, WorkerPool* pool, size_t worker, Status status);
  void WatchHealth();
  void CheckHealth(WorkerPool* pool);
  std::vector<WorkerPool*> Pools() {
    std::vector<WorkerPool*> pools = {workers_.get()};
    if (prefill_ != nullptr) pools.push_back(prefill_.get());
    return pools;
  }

  const RouterOptions options_;
  const bool disaggregated_;
  std::unique_ptr<WorkerPool> workers_;  // all, or those that decode
  std::unique_ptr<WorkerPool> prefill_;  // with disaggregation
  RouterCounters counters_;
  std::unique_ptr<Upstream> upstream_;
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<http::Server> metrics_;
  std::mutex mutex_;  // guards stopping_
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread health_;
};

Status Router::Start() {
  if (disaggregated_) {
    if (options_.prefill.empty() || options_.decode.empty()) {
      return InvalidInput("--pd", "needs --prefill and --decode", "give at least one URL each");
    }
    POOLMARK_ASSIGN_OR_RETURN(workers_, WorkerPool::Make(options_.decode, options_.policy));
    POOLMARK_ASSIGN_OR_RETURN(prefill_, WorkerPool::Make(options_.prefill, options_.policy));
  } else {
    if (options_.workers.empty()) return InvalidInput("--worker-urls", "no engine", "give at least one URL");
    POOLMARK_ASSIGN_OR_RETURN(workers_, WorkerPool::Make(options_.workers, options_.policy));
  }
  upstream_ = std::make_unique<Upstream>();
  http::ServerOptions serve;
  serve.address = options_.host;
  serve.port = static_cast<uint16_t>(options_.port);
  POOLMARK_ASSIGN_OR_RETURN(
      server_, http::Server::Start(serve, [this](const http::ServerRequest& request, Writer writer) {
        Handle(request, std::move(writer));
      }));
  serve.address = options_.metrics_host;
  serve.port = static_cast<uint16_t>(options_.metrics_port);
  POOLMARK_ASSIGN_OR_RETURN(
      metrics_, http::Server::Start(serve, [this](const http::ServerRequest& request, Writer writer) {
        if (request.path != "/metrics")
          return ReplyError(writer, 404, "NotFoundError", "only /metrics is here");
        writer->Send(200, "text/plain; version=0.0.4; charset=utf-8",
                     counters_.Page(*workers_, prefill_.get()));
      }));
  health_ = std::thread([this] { WatchHealth(); });
  return absl::OkStatus();
}

void Router::CheckHealth(WorkerPool* pool) {
  for (size_t i = 0; i < pool->size(); ++i) {
    Exchange look;
    look.url = pool->url(i);
    look.url.target = "/health";
    look.method = "GET";
    look.timeout = 2s;
    auto status = std::make_shared<int>(0);
    look.on_head = [status](int code, const http::Headers&) { *status = code; };
    look.on_done = [pool, i, status](const Status& done) {
      bool healthy = done.ok() && *status == 200;
      if (healthy != pool->healthy(i)) {
        Log(healthy ? LogLevel::kInfo : LogLevel::kWarning, "router.worker",
            {{"worker", pool->name(i)}, {"healthy", static_cast<int>(healthy)}});
      }
      pool->SetHealth(i, healthy);
    };
    upstream_->Send(std::move(look));
  }
}

void Router::WatchHealth() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    bool all = true;
    for (WorkerPool* pool : Pools()) {
      CheckHealth(pool);
      all = all && pool->healthy_count() == pool->size();
    }
    lock.lock();
    // Engines that are still loading are looked at more often.
    wake_.wait_for(lock,
                   all ? options_.health_interval : std::min<Nanoseconds>(options_.health_interval, 200ms));
  }
}

// What the router answers itself; false: it is to be handed on.
bool Router::Own(const http::ServerRequest& request, const Writer& writer) {
  size_t all = 0, healthy = 0;
  for (WorkerPool* pool : Pools()) {
    all += pool->size();
    healthy += pool->healthy_count();
  }
  const std::string& path = request.path;
  if (path == "/liveness") {
    writer->Send(200, "text/plain", "OK");
  } else if (path == "/health") {
    bool ok = healthy == all;
    writer->Send(ok ? 200 : 503, "text/plain",
                 ok ? "All servers healthy"
                    : std::to_string(healthy) + " of " + std::to_string(all) + " servers healthy");
  } else if (path == "/readiness") {
    writer->Send(healthy > 0 ? 200 : 503, "application/json",
                 "{\"status\":\"" + std::string(healthy > 0 ? "ready" : "not ready") +
                     "\",\"healthy_workers\":" + std::to_string(healthy) +
                     ",\"total_workers\":" + std::to_string(all) + "}");
  } else if (path == "/list_workers") {
    std::string json = "{\"urls\":[";
    for (WorkerPool* pool : Pools()) {
      for (size_t i = 0; i < pool->size(); ++i) {
        if (json.back() != '[') json += ',';
        AppendJsonString(pool->name(i), &json);
      }
    }
    writer->Send(200, "application/json", json + "]}");
  } else {
    return false;
  }
  return true;
}

void Router::Handle(const http::ServerRequest& request, Writer writer) {
  if (Own(request, writer)) return;
  auto relay = std::make_shared<Relay>();
  relay->method = request.method;
  relay->target = request.target;
  relay->route = request.path;
  relay->body = request.body;
  relay->writer = std::move(writer);
  for (const char* name : {"Content-Type", "Authorization", "Accept"}) {
    if (auto value = request.header(name)) relay->headers.emplace_back(name, *value);
  }
  relay->headers.emplace_back("X-Request-Id", request.header("X-Request-Id").value_or("req-" + RandomHex(8)));
  bool generates = request.method == "POST" &&
                   (request.path == "/v1/chat/completions" || request.path == "/v1/completions");
  counters_.Request(relay->route, prefill_ != nullptr);
  if (!generates) {
    // vllm-router hands unknown paths on to a worker; with disaggregation it has no /metrics to give.
    if (prefill_ != nullptr && request.path == "/metrics") {
      return ReplyError(relay->writer, 405, "MethodNotAllowed",
                        "the router's metrics are on its metrics port");
    }
    return Forward(relay, workers_.get());
  }
  relay->session = request.header("X-Session-Id").value_or("");
  std::string policy = workers_->policy();
  if (policy == "cache_aware" || (policy == "sticky" && relay->session.empty())) {
    GenerateRequest parsed;
    if (!ParseGenerate(request.body, request.path == "/v1/chat/completions", &parsed)) {
      relay->blocks = model::HashBlocks(parsed.prompt, kHashUnit, 0);
      if (relay->session.empty()) relay->session = parsed.session;
    }
  }
  if (prefill_ != nullptr) return Prefill(relay);
  Forward(relay, workers_.get());
}

// Asks a prefill engine for one token, then hands the request with its answer's parameters to a decode
// engine.
void Router::Prefill(const RelayPtr& relay) {
  std::optional<std::string> body = PrefillBody(relay->body);
  if (!body) return ReplyError(relay->writer, 400, "BadRequestError", "the body is no JSON object");
  size_t worker = prefill_->Take({relay->blocks, relay->session});
  if (worker == WorkerPool::kNobody) {
    counters_.Error(relay->route, "no_available_workers");
    return ReplyError(relay->writer, 503, "ServiceUnavailable", "no prefill engine is healthy");
  }
  Exchange ask;
  ask.url = prefill_->url(worker);
  ask.url.target = relay->target;
  ask.headers = relay->headers;
  ask.body = std::move(*body);
  ask.timeout = options_.request_timeout;
  ask.wanted = [relay] { return !relay->writer->peer_gone(); };
  auto reply = std::make_shared<Relay>();
  ask.on_head = [reply](int status, const http::Headers&) { reply->status = status; };
  ask.on_body = [reply](std::string_view piece) {
    reply->whole.append(piece.substr(0, (16u << 20) - std::min<size_t>(reply->whole.size(), 16u << 20)));
  };
  ask.on_done = [this, relay, reply, worker](const Status& status) {
    prefill_->Release(worker, status.ok() && reply->status < 500);
    if (!status.ok()) {
      counters_.PrefillError(prefill_->name(worker));
      if (absl::IsCancelled(status)) return;
      prefill_->SetHealth(worker, false);
      if (++relay->attempts < kAttempts) return Prefill(relay);
      return ReplyError(relay->writer, 502, "BadGateway", "prefill failed: " + std::string(status.message()));
    }
    if (reply->status != 200) {
      counters_.PrefillError(prefill_->name(worker));
      return relay->writer->Send(reply->status, "application/json", reply->whole);
    }
    std::optional<std::string> decode = DecodeBody(relay->body, reply->whole);
    if (!decode) {
      counters_.PrefillError(prefill_->name(worker));
      return ReplyError(relay->writer, 502, "BadGateway", "the prefill engine gave no kv_transfer_params");
    }
    relay->body = std::move(*decode);
    relay->attempts = 0;
    Forward(relay, workers_.get());
  };
  upstream_->Send(std::move(ask));
}

void Router::Forward(const RelayPtr& relay, WorkerPool* pool) {
  size_t worker = pool->Take({relay->blocks, relay->session});
  if (worker == WorkerPool::kNobody) {
    counters_.Error(relay->route, "no_available_workers");
    return ReplyError(relay->writer, 503, "ServiceUnavailable", "no engine is healthy");
  }
  Exchange ask;
  ask.url = pool->url(worker);
  ask.url.target = relay->target;
  ask.method = relay->method;
  ask.headers = relay->headers;
  ask.body = relay->body;
  ask.timeout = options_.request_timeout;
  ask.wanted = [relay] { return !relay->writer->peer_gone(); };
  ask.on_head = [relay](int status, const http::Headers& headers) {
    relay->head_seen = true;
    relay->status = status;
    bool sized = false;
    for (const auto& [name, value] : headers) {
      if (http::EqualsIgnoreCase(name, "content-type")) relay->content_type = value;
      sized = sized || http::EqualsIgnoreCase(name, "content-length");
    }
    // What comes without a length is handed on piece by piece.
    relay->streaming = !sized;
    if (relay->streaming) {
      relay->writer->StartStream(status, relay->content_type,
                                 {{"Server", "poolmark-sim router (simulated)"}});
    }
  };
  ask.on_body = [relay](std::string_view piece) {
    if (relay->streaming) {
      relay->writer->Write(piece);
    } else if (relay->whole.size() + piece.size() <= (64u << 20)) {
      relay->whole.append(piece);
    }
  };
  ask.on_done = [this, relay, pool, worker](Status status) {
    Finished(relay, pool, worker, std::move(status));
  };
  upstream_->Send(std::move(ask));
}

void Router::Finished(const RelayPtr& relay, WorkerPool* pool, size_t worker, Status status) {
  bool disaggregated = prefill_ != nullptr;
  pool->Release(worker, status.ok() && relay->status < 500);
  if (status.ok()) {
    if (relay->status >= 400)
      counters_.Error(relay->route, relay->status >= 500 ? "server_error" : "non_retryable_error");
    counters_.Duration(relay->route, Now() - relay->started, disaggregated);
    if (relay->streaming) {
      relay->writer->End();
    } else {
      relay->writer->Send(relay->status, relay->content_type, std::move(relay->whole),
                          {{"Server", "poolmark-sim router (simulated)"}});
    }
    return;
  }
  if (absl::IsCancelled(status)) {
    if (relay->head_seen) relay->writer->Abort();
    return;
  }
  counters_.Error(relay->route, relay->head_seen ? "broken_stream" : "connection_error");
  Log(LogLevel::kWarning, "router.upstream",
      {{"worker", pool->name(worker)}, {"error", std::string(status.message())}});
  if (relay->head_seen) return relay->writer->Abort();  // half an answer must not look like a whole one
  if (!absl::IsDeadlineExceeded(status)) pool->SetHealth(worker, false);
  if (!absl::IsDeadlineExceeded(status) && ++relay->attempts < kAttempts) return Forward(relay, pool);
  ReplyError(relay->writer, 502, "BadGateway", "no engine answered: " + std::string(status.message()));
}

int Router::Run() {
  if (Status status = Start(); !status.ok()) {
    std::fprintf(stderr, "poolmark-sim router: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  AnnouncePort(options_.host, server_->port());
  std::printf("metrics %s:%d\n", options_.metrics_host.c_str(), metrics_->port());
  std::fflush(stdout);
  WaitForSignal();
  Nanoseconds limit = RealClock().Steady() + options_.drain;
  while (workers_->active() > 0 && RealClock().Steady() < limit) std::this_thread::sleep_for(10ms);
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  health_.join();
  upstream_.reset();
  server_->Stop();
  metrics_->Stop();
  return 0;
}

}  // namespace

int RunRouter(const RouterOptions& options) {
  Router router(options);
  return router.Run();
}

}  // namespace poolmark::sim
