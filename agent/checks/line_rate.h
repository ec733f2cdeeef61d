// Line rate between two machines: both ends of iperf3, ib_write_bw and ib_write_lat. A tool that is missing
// is a clear failure text, never a figure. Which pairs, how often and which run counts is the controller's
// business. Thread-safe; at most one server per port. Every child is ended on every path; destroying the
// object ends all servers.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "agent/facts/command.h"
#include "agent/facts/facts.h"
#include "poolmark/v1/agent.pb.h"

namespace poolmark::agent {

class LineRate {
 public:
  // `spawner` outlives this object.
  explicit LineRate(Spawner* spawner, FactsContext facts = {});
  ~LineRate();
  LineRate(const LineRate&) = delete;
  LineRate& operator=(const LineRate&) = delete;

  // Server end: returns when it listens (iperf3) or runs (perftest, which prints nothing until a client
  // comes); with `stop_server`, ends it. Client end: returns with the figures after `seconds` plus connection
  // time.
  v1::MeasureLineResponse Measure(const v1::MeasureLineRequest& request);

  // Ends every server; how many there were.
  int StopAll();

 private:
  struct Server;
  v1::MeasureLineResponse StartServer(const v1::MeasureLineRequest& request);
  v1::MeasureLineResponse StopServer(const v1::MeasureLineRequest& request);
  v1::MeasureLineResponse RunClient(const v1::MeasureLineRequest& request);

  Spawner* spawner_;
  FactsContext facts_;
  std::mutex mutex_;  // guards servers_
  std::map<uint32_t, std::unique_ptr<Server>> servers_;
};

}  // namespace poolmark::agent
