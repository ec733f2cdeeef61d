// One event loop of the load: its sessions, its connections, its part of the plan. Everything a request
// needs is the loop's own; loops share only the counters of SharedPlan. Run() is one thread's; Wake() may
// be called from any.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "common/load/arrivals.h"
#include "common/load/connection.h"
#include "common/load/options.h"
#include "common/load/record.h"
#include "common/load/record_queue.h"
#include "common/load/session_run.h"
#include "common/load/shared.h"
#include "common/load/source.h"
#include "common/load/stream.h"

namespace poolmark::load {

// Takes finished records; of one loop, called on its thread.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void Take(const RequestRecord& record) = 0;
};

// Which part of the plan a loop has: part `index` of `count`, over all loops of all processes.
struct LoopPart {
  uint32_t index = 0;
  uint32_t count = 1;
};

// The loop's part of its process's connections; 0: no limit. The first loops have one more, as they have one
// user more, so that a process whose connections suffice for its users has enough in every loop.
uint32_t ConnectionsOfLoop(const LoadOptions& options, LoopPart part);

class Loop {
 public:
  Loop(const LoadOptions& options, const std::vector<Target>& targets, SessionSource& source,
       SharedPlan& shared, LoopLive& live, RecordSink& sink, LoopPart part);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Opens what must exist before time 0. On the loop's thread or before it.
  Status Prepare();
  // Waits for the start, then runs until all is sent and drained.
  void Run();
  void Wake();

 private:
  struct Request {
    SessionRun* run = nullptr;
    uint32_t turn = 0;
    int64_t due = 0;
    bool has_intended = false;
    int attempt = 1;
    int last_status = 0;      // HTTP status of the attempt before this one
    bool counted = false;     // against max_requests and the warm-up
    bool measured = false;    // against measured_requests
    bool waited = false;      // for a connection
    bool noted = false;       // in the schedule error
    uint64_t wait_order = 0;  // among those that wait
    bool owed = false;        // was due before the end of the load: sent in the drain
  };
  struct Timer {
    int64_t at = 0;
    uint64_t order = 0;
    enum class Kind : uint8_t { kTurn, kUser, kRetry } kind = Kind::kTurn;
    int user = -1;
    Request request;
    bool operator>(const Timer& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  struct Link;

  // loop.cpp: the loop itself; loop_start.cpp: before it.
  int64_t Now() const;
  void ConvertClock();
  void OpenAheadOfStart();
  void Poll(int milliseconds);
  void WaitForStart();
  void WaitUntil(int64_t start);
  void RunDue(int64_t now);
  void ArmTimer();
  std::optional<int64_t> NextDue() const;
  void Sweep(int64_t now);
  bool Issuing(int64_t now);
  bool HoldSends(bool read_something);
  void StartSome();
  void BuryClosed();

  // loop_limits.cpp: limits of requests, the window, the end.
  bool Count(Request* request);
  void StopAtLimit();
  bool InWindow(int64_t time) const;
  bool CountMeasured(Request* request, int64_t window_time);
  void NoteDelay(const Request& request, int64_t now);
  void EndIssuing(int64_t now);
  bool Over();
  void CutOff(int64_t now);
  void CancelUnsent(const Request& request, int64_t now);

  // loop_plan.cpp: sessions and arrivals.
  void BeginPlan();
  void NextArrival();
  bool ArrivalsAreRequests() const;
  void OpenAhead(int64_t now);
  void TakeArrival(int64_t now, int64_t at);
  void StartUser(int user, int64_t now);
  SessionRun* OpenSession(uint64_t number, int user);
  SessionRun* AddRun(std::unique_ptr<Session> session, uint64_t number, int user);
  void RaiseWindow(int64_t now);
  bool MoreTurns() const;
  void BeginSession(SessionRun* run, int64_t now);
  void ScheduleTurn(SessionRun* run, uint32_t turn, int64_t after);
  void TurnEnded(const Request& request, bool ok, int64_t now);
  void SessionOver(SessionRun* run, int64_t now);
  void Drop(const Request& request);

  // loop_links.cpp: connections.
  Link* FindIdle(uint32_t target, int64_t now);
  void OpenLink(uint32_t target, const Request* request);
  void Connected(Link* link);
  void WatchWrites(Link* link, bool on);
  void FailConnect(Link* link);
  void Release(Link* link, int64_t now);
  void CloseLink(Link* link, bool reset);
  void Bury(Link* link, bool reset);
  bool MakeRoom();
  void Wait(uint32_t target, const Request& request);
  void WakeWaiting(uint32_t freed);

  // loop_exchange.cpp: requests on connections.
  static void Rehearse();
  void DrainReady();
  void StartFirst();
  void Start(Request request);
  void BeginExchange(Link* link);
  void HandleEvent(Link* link, uint32_t events);
  void HandleRead(Link* link);
  void SentAll(Link* link, int64_t began);
  void EndExchange(Link* link);
  bool RetryWanted(const RequestRecord& record, const Request& request, bool stale) const;
  void ScheduleRetry(Request request, const RequestRecord& failed, std::optional<int64_t> retry_after);
  static void FillRecord(const Request& request, uint32_t target, RequestRecord* record);
  RequestRecord NewRecord(const Request& request, uint32_t target) const;
  void Publish(RequestRecord* finished);
  void HandFirst();
  void HandOver();
  void InFlight(int change, int64_t now);

  const LoadOptions& options_;
  const std::vector<Target>& targets_;
  SessionSource& source_;
  SharedPlan& shared_;
  LoopLive& live_;
  RecordSink& sink_;
  const LoopPart part_;

  int epoll_ = -1;
  int timer_ = -1;
  int wake_ = -1;
  int64_t start_ = 0;         // steady clock at time 0
  int64_t real_to_load_ = 0;  // CLOCK_REALTIME + this = time of the load
  int64_t armed_ = -1;
  int64_t now_ = 0;  // as of the last read of the clock
  int64_t load_end_ = INT64_MAX;
  int64_t drain_end_ = INT64_MAX;
  bool issuing_ = true;
  bool cut_ = false;

  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  uint64_t timer_order_ = 0;
  std::deque<Request> ready_;                 // to be started at once
  int64_t held_since_ = -1;                   // closed loop: sends wait for reads since then
  std::deque<Request> open_ready_;            // rate: turns that wait for an arrival
  std::vector<std::deque<Request>> waiting_;  // for a connection, by target
  uint64_t wait_order_ = 0;
  int kept_in_a_row_ = 0;         // times that a place has not changed sides since it last did
  int64_t changed_sides_at_ = 0;  // a connection was closed for one to another server

  std::optional<ArrivalSchedule> arrivals_;
  uint64_t arrival_index_ = 0;
  uint64_t measured_arrivals_ = 0;
  std::optional<int64_t> next_arrival_;
  uint64_t next_static_session_ = 0;  // rate and trace: this loop's next session
  std::unique_ptr<Session> ahead_;    // trace: the next session, opened but not begun
  uint64_t ahead_number_ = 0;
  bool sessions_left_ = true;

  std::vector<std::unique_ptr<SessionRun>> runs_;  // by slot
  std::vector<size_t> free_runs_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<Link>> buried_;
  std::vector<std::vector<Link*>> idle_;  // by target; the last one was used last
  std::vector<uint32_t> links_to_;        // open ones, by target
  uint32_t max_links_ = 0;
  size_t busy_ = 0;
  int64_t in_flight_since_ = 0;
  int64_t in_flight_ = 0;

  RecordQueue finished_;  // for the sink

  std::vector<char> buffer_;
  std::string head_;
  std::vector<uint32_t> turns_;
};

}  // namespace poolmark::load
