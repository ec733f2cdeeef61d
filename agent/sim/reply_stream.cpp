#include "agent/sim/reply_stream.h"

namespace poolmark::sim {

DelayedWriter::~DelayedWriter() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void DelayedWriter::At(Nanoseconds steady, Writer writer, std::string bytes, Then then) {
  std::lock_guard lock(mutex_);
  pieces_.emplace(steady, Piece{std::move(writer), std::move(bytes), then});
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  wake_.notify_all();
}

void DelayedWriter::HoldForEver(Writer writer) {
  std::lock_guard lock(mutex_);
  held_.push_back(std::move(writer));
}

void DelayedWriter::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (pieces_.empty()) {
      wake_.wait(lock);
      continue;
    }
    Nanoseconds now = RealClock().Steady();
    auto first = pieces_.begin();
    if (first->first > now) {
      wake_.wait_for(lock, first->first - now);
      continue;
    }
    Piece piece = std::move(first->second);
    pieces_.erase(first);
    lock.unlock();
    if (!piece.bytes.empty()) piece.writer->Write(piece.bytes);
    if (piece.then == Then::kEnd) piece.writer->End();
    if (piece.then == Then::kAbort) piece.writer->Abort();
    piece = {};
    lock.lock();
  }
}

ReplyStream::ReplyStream(Writer writer, ReplyHead head, const GenerateRequest& request,
                         std::vector<Fault> faults, DelayedWriter* delayed)
    : writer_(std::move(writer)),
      head_(std::move(head)),
      stream_(request.stream),
      include_usage_(request.include_usage),
      continuous_usage_(request.continuous_usage),
      faults_(std::move(faults)),
      delayed_(delayed) {}

const Fault* ReplyStream::Has(std::string_view kind) const {
  for (const Fault& fault : faults_) {
    if (fault.kind == kind) return &fault;
  }
  return nullptr;
}

bool ReplyStream::Due(std::string_view kind) const {
  const Fault* fault = Has(kind);
  return fault != nullptr && static_cast<double>(tokens_) >= fault->Number("after_tokens", 3);
}

void ReplyStream::Refuse(const ApiError& error) {
  writer_->Send(error.status, "application/json", error.ToJson(), {{"Server", "poolmark-sim (simulated)"}});
  broken_ = true;
}

bool ReplyStream::Arrived() {
  if (const Fault* fault = Has("error-before")) {
    int status = static_cast<int>(fault->Number("status", 500));
    Refuse({status, "InternalServerError", "the simulated engine was asked to fail", ""});
    return false;
  }
  if (const Fault* fault = Has("garbage")) {
    SendGarbage(fault->Text("what", "text"));
    return false;
  }
  if (stream_ && Has("early-role") != nullptr) Open();
  return true;
}

void ReplyStream::SendGarbage(const std::string& what) {
  broken_ = true;
  if (what == "html") {
    writer_->Send(200, "text/html", "<html><body>502 Bad Gateway</body></html>\n");
    return;
  }
  if (what == "json") {
    writer_->Send(200, "application/json", "{\"choices\":[{\"delta\":");
    return;
  }
  writer_->StartStream(200, "text/event-stream; charset=utf-8");
  if (what == "endless-line" || what == "bomb") {
    // 32 MiB without a line end, or as many empty events.
    std::string piece = what == "bomb" ? "" : std::string(1 << 16, 'x');
    while (piece.size() < (1 << 16)) piece += "data: {}\n\n";
    writer_->Write("data: ");
    for (int i = 0; i < 512 && writer_->Write(piece); ++i) {
    }
  } else {
    writer_->Write("data: this is not JSON\n\ndata: \x01\xff\xfe\n\n: comment\n\nevent: x\ndata:\n\n");
  }
  writer_->End();
}

void ReplyStream::Open() {
  if (!open_) {
    open_ = true;
    writer_->StartStream(200, "text/event-stream; charset=utf-8", {{"Server", "poolmark-sim (simulated)"}});
  }
  if (!role_sent_ && head_.chat) Out(RoleEvent(head_));
  role_sent_ = true;
}

void ReplyStream::Out(std::string_view bytes, DelayedWriter::Then then) {
  const Fault* drip = Has("drip");
  if (drip == nullptr && not_before_ == Nanoseconds(0)) {
    writer_->Write(bytes);
    if (then == DelayedWriter::Then::kEnd) writer_->End();
    if (then == DelayedWriter::Then::kAbort) writer_->Abort();
    return;
  }
  Nanoseconds now = RealClock().Steady();
  if (not_before_ < now) not_before_ = now;
  if (drip == nullptr) {
    delayed_->At(not_before_, writer_, std::string(bytes), then);
    return;
  }
  auto piece = static_cast<size_t>(drip->Number("bytes", 1));
  if (piece == 0) piece = 1;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    delayed_->At(not_before_, writer_, std::string(bytes.substr(at, piece)), DelayedWriter::Then::kNothing);
    not_before_ += drip->Duration("interval").value_or(std::chrono::milliseconds(20));
  }
  if (then != DelayedWriter::Then::kNothing) delayed_->At(not_before_, writer_, "", then);
}

// True when a fault ends the stream here.
bool ReplyStream::SpoilAfterTokens() {
  if (Due("error-inside")) {
    ApiError error{500, "InternalServerError", "EngineCore encountered an issue (simulated)", ""};
    bool as_event = Has("error-inside")->Number("event", 0) != 0;
    if (stream_) {
      Open();
      Out(ErrorEvent(error, as_event));
      Out(kDoneEvent, DelayedWriter::Then::kEnd);
    } else {
      writer_->Send(200, "application/json", error.ToJson());
    }
    return broken_ = true;
  }
  if (Due("truncate")) {
    if (stream_) {
      Open();
      Out("", DelayedWriter::Then::kEnd);
    } else {
      writer_->Send(200, "application/json",
                    "{\"id\":\"cut\",\"choices\":[{\"index\":0,\"message\":{\"role\":");
    }
    return broken_ = true;
  }
  if (Due("reset")) {
    // What was written before must reach the peer first, or the reset would take it along.
    delayed_->At(RealClock().Steady() + std::chrono::milliseconds(20), writer_, "",
                 DelayedWriter::Then::kAbort);
    return broken_ = true;
  }
  if (Due("stall")) {
    std::optional<Nanoseconds> span = Has("stall")->Duration("for");
    if (!span) {
      delayed_->HoldForEver(writer_);
      return broken_ = true;
    }
    if (not_before_ == Nanoseconds(0)) not_before_ = RealClock().Steady() + *span;
  }
  return false;
}

bool ReplyStream::Text(std::string_view field, std::string_view text, int64_t tokens, const Usage& usage) {
  if (gone() || SpoilAfterTokens()) return false;
  tokens_ += tokens;
  if (Has("no-output") != nullptr) return true;
  if (!stream_) {
    (field == "content" ? content_ : reasoning_).append(text);
    return true;
  }
  Open();
  bool with_usage = continuous_usage_ && Has("no-usage") == nullptr;
  Out(TextEvent(head_, field, text, with_usage ? &usage : nullptr));
  return true;
}

void ReplyStream::Finish(std::string_view reason, const Usage& usage, const TransferParams* transfer,
                         size_t transfer_blocks) {
  if (gone() || SpoilAfterTokens()) return;
  bool with_usage = Has("no-usage") == nullptr;
  if (!stream_) {
    std::string reply = WholeReply(head_, content_, reasoning_, reason, with_usage ? &usage : nullptr,
                                   transfer, transfer_blocks);
    http::Headers headers = {{"Server", "poolmark-sim (simulated)"}};
    const Fault* stall = Has("stall");
    if (stall != nullptr && not_before_ > RealClock().Steady()) {
      writer_->StartStream(200, "application/json", headers);
      delayed_->At(not_before_, writer_, reply, DelayedWriter::Then::kEnd);
    } else {
      writer_->Send(200, "application/json", std::move(reply), headers);
    }
    return;
  }
  Open();
  Out(FinishEvent(head_, reason, nullptr));
  if (with_usage && include_usage_) Out(UsageEvent(head_, usage));
  bool done = Has("no-done") == nullptr;
  Out(done ? kDoneEvent : std::string_view(), DelayedWriter::Then::kEnd);
}

}  // namespace poolmark::sim
