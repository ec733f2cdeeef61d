// Requests on connections: from "to be started" to the record.
#include <sys/epoll.h>

#include <algorithm>
#include <charconv>

#include "common/load/loop.h"
#include "common/load/loop_link.h"

namespace poolmark::load {
namespace {

void AppendNumber(uint64_t value, std::string* out) {
  char buffer[24];
  out->append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

// An engine that heeds no max_tokens would fill the memory with one record.
size_t MostEvents(int64_t output_tokens) {
  return 10'000 + 16 * static_cast<size_t>(std::clamp<int64_t>(output_tokens, 0, 1'000'000));
}

}  // namespace

// Reads a made-up answer once, so that the first real one does not pay for code and memory touched for the
// first time.
void Loop::Rehearse() {
  constexpr std::string_view kAnswer =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
      "data: "
      "{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}"
      "]}\n\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"},\"finish_reason\":\"length\"}]}\n\n"
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n"
      "data: [DONE]\n\n";
  RequestRecord record;
  StreamReader stream;
  stream.Begin(&record, nullptr);
  stream.Feed(kAnswer, 0, std::nullopt);
  stream.Closed(0, "");
}

void Loop::InFlight(int change, int64_t now) {
  const int64_t more = in_flight_ * std::max<int64_t>(0, now - in_flight_since_);
  in_flight_since_ = now;
  in_flight_ += change;
  live_.SetInFlight(static_cast<uint64_t>(in_flight_), static_cast<uint64_t>(more), now);
  if (static_cast<uint64_t>(in_flight_) > LoopLive::Get(live_.max_in_flight)) {
    live_.max_in_flight.store(static_cast<uint64_t>(in_flight_), std::memory_order_relaxed);
  }
}

void Loop::DrainReady() {
  while (!ready_.empty()) StartFirst();
}

void Loop::StartFirst() {
  // Asked while the request still waits: at the end of the load what waits is owed or let go.
  Issuing(now_);
  if (ready_.empty()) return;
  const Request request = ready_.front();
  ready_.pop_front();
  if (request.attempt == 1 && !request.owed && !issuing_) return Drop(request);
  Start(request);
}

void Loop::Start(Request request) {
  if (!Count(&request)) return Drop(request);
  const uint32_t target = static_cast<uint32_t>(request.run->number() % targets_.size());
  Link* const link = FindIdle(target, now_);
  if (link != nullptr) {
    link->request = request;
    ++busy_;
    return BeginExchange(link);
  }
  if (max_links_ > 0 && links_.size() >= max_links_ && !MakeRoom()) return Wait(target, request);
  // From here on it is the connection's set-up, which is told apart.
  if (!request.waited) {
    NoteDelay(request, Now());
    request.noted = true;
  }
  OpenLink(target, &request);
}

RequestRecord Loop::NewRecord(const Request& request, uint32_t target) const {
  RequestRecord record;
  FillRecord(request, target, &record);
  return record;
}

void Loop::FillRecord(const Request& request, uint32_t target, RequestRecord* record) {
  const TurnPlan& plan = request.run->plan(request.turn);
  record->Clear();
  record->session = request.run->number();
  record->turn = request.turn;
  record->session_id.assign(request.run->session().id());
  record->agent = plan.agent;
  record->primer = plan.primer;
  record->target = target;
  record->planned_input_tokens = plan.input_tokens;
  record->attempts = request.attempt;
  if (request.has_intended) record->intended = request.due;
}

void Loop::BeginExchange(Link* link) {
  const Request& request = *link->request;
  SessionRun& run = *request.run;
  RequestRecord& record = link->record;
  FillRecord(request, link->target, &record);
  record.connect = link->connect_took;
  link->connect_took.reset();
  link->body.clear();
  run.session().Render(request.turn, &link->body);
  const Target& target = targets_[link->target];
  head_.assign(target.head).append("X-Request-ID: ").append(options_.request_id_prefix).append("-");
  AppendNumber(run.number(), &head_);
  head_ += '-';
  AppendNumber(request.turn, &head_);
  head_ += "\r\nContent-Length: ";
  AppendNumber(link->body.size(), &head_);
  head_ += "\r\n\r\n";
  link->answer.clear();
  link->done_at = -1;
  link->stream.Begin(&record, run.wants_answers() ? &link->answer : nullptr,
                     MostEvents(run.plan(request.turn).output_tokens));
  now_ = Now();
  record.started = record.sent = now_;
  if (!CountMeasured(&*link->request, record.window_time())) {
    const Request unwanted = request;
    link->request.reset();
    --busy_;
    Release(link, now_);
    return Drop(unwanted);
  }
  if (!request.noted) NoteDelay(request, now_);
  if (request.attempt == 1) {
    LoopLive::Add(live_.started, 1);
  } else {
    LoopLive::Add(live_.extra_attempts, 1);
  }
  InFlight(1, now_);
  link->last_byte = now_;
  switch (link->connection.Send(head_, link->body)) {
    case Connection::Io::kOk:
      return SentAll(link, now_);
    case Connection::Io::kBlocked:
      return WatchWrites(link, true);
    default:
      link->stream.Abort(Outcome::kReset, Now(), link->connection.error());
      return EndExchange(link);
  }
}

// The write that began at `began` took the last byte. A clock read after it may be late, which would make the
// answer look faster than the server was.
void Loop::SentAll(Link* link, int64_t began) {
  WatchWrites(link, false);
  link->record.sent = began;
  LoopLive::Add(live_.bytes_out, link->body.size());
  // Long prompts are many; short ones keep their memory.
  if (link->body.capacity() > 64 * 1024) std::string().swap(link->body);
}

void Loop::HandleEvent(Link* link, uint32_t events) {
  if (link->closed) return;
  if (link->connecting) {
    const int before = link->connection.fd();
    const Connection::Io io = link->connection.Advance();
    if (io == Connection::Io::kLost) return FailConnect(link);
    if (link->connection.fd() != before) {  // the next address of the host
      epoll_event event{EPOLLIN | EPOLLOUT, {.ptr = link}};
      link->watches_writes = true;
      epoll_ctl(epoll_, EPOLL_CTL_ADD, link->connection.fd(), &event);
    }
    if (io == Connection::Io::kOk) {
      Connected(link);
    } else if ((events & EPOLLOUT) != 0 && link->connection.connected()) {
      WatchWrites(link, link->connection.sending());  // TLS waits for the server
    }
    return;
  }
  if ((events & EPOLLOUT) != 0 && link->request.has_value()) {
    now_ = Now();
    switch (link->connection.Flush()) {
      case Connection::Io::kOk:
        SentAll(link, now_);
        break;
      case Connection::Io::kBlocked:
        break;
      default:
        // The server may have answered before it broke the connection: what can be read counts.
        WatchWrites(link, false);
    }
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) HandleRead(link);
}

void Loop::HandleRead(Link* link) {
  Connection::Received received;
  do {
    const Connection::Io io = link->connection.Receive(buffer_.data(), buffer_.size(), &received);
    now_ = Now();
    if (io == Connection::Io::kBlocked) return;
    if (!link->request.has_value()) {
      // Nothing was asked: the peer closed an idle connection, or talks out of turn.
      if (io == Connection::Io::kOk && received.bytes.empty()) continue;
      LoopLive::Add(live_.stale_connections, 1);
      return CloseLink(link, false);
    }
    if (io != Connection::Io::kOk) {
      link->stream.Closed(now_, io == Connection::Io::kLost ? link->connection.error() : "");
      return EndExchange(link);
    }
    if (received.bytes.empty()) continue;
    LoopLive::Add(live_.bytes_in, received.bytes.size());
    std::optional<int64_t> kernel;
    if (received.kernel_realtime.has_value()) {
      // Two clocks read at different times disagree by some microseconds: never later than now.
      kernel = std::min(now_, *received.kernel_realtime + real_to_load_);
      const int64_t late = now_ - *kernel;
      live_.lateness.Add(late);
      if (late > live_.max_lateness.load(std::memory_order_relaxed))
        live_.max_lateness.store(late, std::memory_order_relaxed);
    }
    link->last_byte = now_;
    const size_t events_before = link->record.events.size();
    const StreamReader::State state = link->stream.Feed(received.bytes, now_, kernel);
    LoopLive::Add(live_.events, link->record.events.size() - events_before);
    if (state == StreamReader::State::kEnded) return EndExchange(link);
    if (state == StreamReader::State::kDone && link->done_at < 0) link->done_at = now_;
  } while (link->connection.more());
}

// The record is complete: passes it on, frees or closes the connection, lets the session go on.
void Loop::EndExchange(Link* link) {
  RequestRecord& record = link->record;
  const int64_t now = record.end;
  const bool all_sent = !link->connection.sending();
  InFlight(-1, now);
  --busy_;
  const Request request = *link->request;
  const bool stale = link->kept && !link->stream.answered() && record.outcome == Outcome::kReset;
  const bool reusable = link->stream.reusable() && all_sent;
  bool again = RetryWanted(record, request, stale);
  const std::optional<int64_t> retry_after = again ? link->stream.retry_after_seconds() : std::nullopt;
  // A wait that is longer than a request may take is none that is waited for.
  again = again && retry_after.value_or(0) <= options_.deadline.count() / 1'000'000'000;
  const Outcome outcome = record.outcome;
  if (stale && !again) LoopLive::Add(live_.stale_requests, 1);
  if (link->stream.absurd_usage() && !again) LoopLive::Add(live_.absurd_usages, 1);
  if (!again) {
    if (outcome == Outcome::kOk && request.run->wants_answers())
      request.run->session().TakeAnswer(request.turn, link->answer);
    Publish(&record);
  }
  link->request.reset();
  link->kept = true;
  if (reusable) {
    Release(link, now);
  } else {
    CloseLink(link, outcome == Outcome::kCancelled || outcome == Outcome::kDeadline ||
                        outcome == Outcome::kStalled);
  }
  if (again) return ScheduleRetry(request, record, retry_after);
  TurnEnded(request, outcome == Outcome::kOk, now);
}

// Shows the record in the counters and keeps it for a quiet moment, since its text takes as long as several
// reads. `record` is an old one afterwards, with its memory.
void Loop::Publish(RequestRecord* finished) {
  const RequestRecord& record = *finished;
  LoopLive::Add(live_.ended, 1);
  LoopLive::Add(live_.outcomes[static_cast<size_t>(record.outcome)], 1);
  if (record.output_tokens.has_value())
    LoopLive::Add(live_.output_tokens, static_cast<uint64_t>(std::max<int64_t>(0, *record.output_tokens)));
  if (record.first_output.has_value()) live_.ttft.Add(*record.first_output - record.latency_start());
  if (finished_.full()) HandFirst();
  finished_.Push(finished);
}

void Loop::HandFirst() {
  sink_.Take(finished_.front());
  finished_.Pop();
}

// In a quiet moment: gives the sink some records, in the order in which they ended; none when a send is near.
void Loop::HandOver() {
  constexpr size_t kAtOnce = 4;
  constexpr int64_t kNear = 50'000;
  const std::optional<int64_t> due = NextDue();
  if (due.has_value() && *due - now_ < kNear) return;
  for (size_t i = 0; i < kAtOnce && finished_.size() > 0; ++i) HandFirst();
}

bool Loop::RetryWanted(const RequestRecord& record, const Request& request, bool stale) const {
  if (request.attempt >= options_.retry.attempts || cut_) return false;
  const RetryPolicy& policy = options_.retry;
  return (policy.on_connect && record.outcome == Outcome::kConnect) || (policy.on_stale && stale) ||
         (policy.on_429 && record.http_status == 429) || (policy.on_5xx && record.http_status >= 500);
}

// Latency goes on from the first attempt: it becomes the intended time.
void Loop::ScheduleRetry(Request request, const RequestRecord& failed, std::optional<int64_t> retry_after) {
  int64_t pause = options_.retry.pause.count() << std::min(request.attempt - 1, 10);
  if (retry_after.has_value()) pause = std::max(pause, *retry_after * 1'000'000'000);
  ++request.attempt;
  request.last_status = failed.http_status;
  request.due = failed.intended.value_or(failed.started);
  request.has_intended = true;
  timers_.push({failed.end + pause, timer_order_++, Timer::Kind::kRetry, -1, request});
}

}  // namespace poolmark::load
