// The ledger of a run: a text file to which the guard appends, before each thing is created, what it is
// about to create, and afterwards what came of it. Tear-down replays it backwards; an agent that starts
// later reads it. One record a line, "<crc32 in hex> <record>\n", so that a torn or damaged line is seen.
//
//   run      run= job= epoch= boot= guard_pid= guard_start=     head of the file, again at each take-over
//   epoch    epoch=                                             the job's epoch grew
//   intend   n= kind= name= …                                   thing n is about to be created
//   made     n= …                                               it was: pid and start, device and inode …
//   exit     n= code= | signal=                                 process n ended
//   teardown cause= keep=                                       tear-down begins
//   gone     n= state= proof= detail= forced=                   what it saw of thing n
//   torn_down clean= left= cause=                               and its end
//
// Not thread-safe. One writer: the file is locked (flock) as long as its guard lives, which is also how
// an agent sees that a guard lives.
#pragma once
#include <string>
#include <vector>

#include "agent/guard/fault.h"
#include "agent/guard/record.h"
#include "agent/guard/unique_fd.h"

namespace poolmark::guard {

struct LedgerContent {
  std::vector<Record> records;
  // "/path/ledger:7: damaged line" for what could not be read; empty: the ledger is whole.
  std::vector<std::string> damages;
  // The last line has no end: it was being written when the writer died, so what it announces
  // was never begun. No damage.
  bool torn_tail = false;
  uint64_t whole_bytes = 0;  // up to and with the last line end
};

// Reads what is readable. Absent or unreadable: a damage. Never fails otherwise.
LedgerContent ReadLedger(const std::string& path);
// True while a guard holds the ledger.
bool LedgerIsLocked(const std::string& path);

class Ledger {
 public:
  // Opens or creates, locks, cuts a torn tail off, reserves room so that a disk filling up later does
  // not keep tear-down from writing its proof. Locked by another process: code "busy".
  Fault Open(const std::string& path);
  // Appends and syncs all of them at once. On a fault nothing that they announce may be created.
  Fault Append(const std::vector<Record>& records);
  Fault Append(const Record& record) { return Append(std::vector<Record>{record}); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  UniqueFd fd_;
  uint64_t size_ = 0;
  bool failed_ = false;  // a sync failed: what is on disk is unknown, so nothing may be promised again
};

}  // namespace poolmark::guard
