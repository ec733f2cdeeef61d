// The guard's Unix socket: requests in, answers and events out, one record a line. Only the guard's own
// user and root are served (SO_PEERCRED). An answer is any number of data records and then "ok" or
// "error code= text=". After `watch` a connection only receives events. Not thread-safe.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/guard/fault.h"
#include "agent/guard/poller.h"
#include "agent/guard/record.h"
#include "agent/guard/run.h"
#include "agent/guard/unique_fd.h"

namespace poolmark::guard {

// Answers one request: data records into `data`, extra fields of the "ok" into `ok`.
using Dispatch = std::function<Fault(const Record& request, std::vector<Record>* data, Record* ok)>;

class Server {
 public:
  Server(Poller* poller, EventLog* events, Dispatch dispatch);
  ~Server();
  // Binds <directory>/guard.sock, mode 0600, whatever the length of the path.
  Fault Listen(const std::string& directory);
  // Sends watchers what is new. Call after each round.
  void Publish();
  // True when every watcher has been sent all events.
  bool drained() const;

 private:
  struct Connection {
    UniqueFd fd;
    std::string in;
    std::string out;
    bool watching = false;
    uint64_t next = 1;  // event to send next
    bool closing = false;
  };
  void Accept();
  void Serve(int fd, short revents);
  void HandleLine(Connection* connection, std::string_view line);
  void Fill(Connection* connection);
  bool Flush(Connection* connection);

  Poller* poller_;
  EventLog* events_;
  Dispatch dispatch_;
  UniqueFd listener_;
  std::map<int, Connection> connections_;
};

}  // namespace poolmark::guard
