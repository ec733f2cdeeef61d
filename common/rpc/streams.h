// The only place that writes gRPC streams. A callback stream that is never finished hangs the server's
// shutdown for ever; here every stream is finished exactly once: by its handler, by the client's leaving, by
// the handler dropping it (INTERNAL), or by CloseAll.
//
// Three ways for a handler of a generated CallbackService (or WithCallbackMethod_X<Service>):
//   push     auto out = streams.Open<Message>(context);  ... keep `out`, TryPush from any thread, Finish
//            return out->reactor();
//   produce  return streams.Produce<Message>(context, [..](Outbox<Message>& out) -> Status { ... out.Write(m)
//   ... });
//            runs on a bounded pool of threads; Write blocks while the client is slow, false when it has gone
//   consume  return streams.Consume<Message>(context, response, [..](Inbox<Message>& in, Response* response)
//   -> Status {...});
// A handler that is asked to end (client gone, shutdown) sees stop_token() and returns.
// Client side: ReadStream (blocking) and Subscription (no thread of its own).
#pragma once
#include <functional>
#include <memory>
#include <stop_token>
#include <utility>

#include "common/rpc/identity.h"
#include "common/rpc/status.h"
#include "common/rpc/stream_client.h"
#include "common/rpc/stream_core.h"

namespace poolmark::rpc {

class Streams {
 public:
  struct Limits {
    size_t workers = 32;  // threads for Produce and Consume; more handlers at once: RESOURCE_EXHAUSTED
    size_t queued_messages = 64;
  };
  Streams();
  explicit Streams(Limits limits);
  // Closes what is open and joins the workers.
  ~Streams();

  template <class Message>
  std::shared_ptr<Outbox<Message>> Open(grpc::CallbackServerContext* context) {
    auto core = std::make_shared<WriteCore<Message>>(limits_.queued_messages);
    core->Start();
    Register(core, context);
    return std::make_shared<Outbox<Message>>(std::move(core));
  }

  template <class Message>
  grpc::ServerWriteReactor<Message>* Produce(grpc::CallbackServerContext* context,
                                             std::function<Status(Outbox<Message>&)> body) {
    auto outbox = Open<Message>(context);
    auto* reactor = outbox->reactor();
    bool taken = RunWorker([outbox, body = std::move(body)] { outbox->Finish(body(*outbox)); });
    if (!taken) outbox->Finish(Busy());
    return reactor;
  }

  template <class Message, class Response>
  grpc::ServerReadReactor<Message>* Consume(grpc::CallbackServerContext* context, Response* response,
                                            std::function<Status(Inbox<Message>&, Response*)> body) {
    auto core = std::make_shared<ReadCore<Message>>(limits_.queued_messages);
    core->Start();
    Register(core, context);
    auto* reactor = core->reactor();
    auto inbox = std::make_shared<Inbox<Message>>(core);
    bool taken = RunWorker(
        [inbox, core, response, body = std::move(body)] { core->Finish(ToGrpc(body(*inbox, response))); });
    if (!taken) core->Finish(ToGrpc(Busy()));
    return reactor;
  }

  // Ends every stream: asks handlers to stop, finishes with UNAVAILABLE; `hard` also cancels the calls, so
  // that a client that never reads cannot hold them. New streams are refused from then on.
  void CloseAll(bool hard);
  // Cancels the streams of callers of whom `pred` holds (revocation).
  void CancelIf(const std::function<bool(const Identity&)>& pred);
  size_t open() const;
  // Waits until no stream is open; false when the time runs out.
  bool WaitNone(std::chrono::milliseconds within);

 private:
  void Register(const std::shared_ptr<StreamCore>& core, grpc::CallbackServerContext* context);
  bool RunWorker(std::function<void()> work);
  static Status Busy();

  struct State;
  const Limits limits_;
  std::shared_ptr<State> state_;  // shared: a core tells it of its end, which may come after the server's
};

}  // namespace poolmark::rpc
