// What the registry asks of agents itself: their facts of this moment, and the links to them.
#include <algorithm>
#include <condition_variable>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "controller/machines/registry.h"
#include "controller/machines/unknown_machine.h"

namespace poolmark::controller {
namespace {

constexpr Nanoseconds kFactsAge = std::chrono::seconds(5);  // a job that waits asks no more often
constexpr size_t kAskedAtOnce = 64;

}  // namespace

void Registry::AskFacts(const std::vector<std::string>& names, Nanoseconds within) {
  std::vector<std::string> asked;
  {
    std::lock_guard lock(mutex_);
    const Nanoseconds now = clock_->Steady();
    for (const std::string& name : names) {
      auto found = machines_.find(name);
      if (found == machines_.end() || Describe(found->second, false).state() != v1::MACHINE_STATE_READY)
        return;
      const Nanoseconds last = found->second.facts_asked;
      if (last.count() == 0 || now - last >= kFactsAge) asked.push_back(name);
    }
    for (const std::string& name : asked) machines_[name].facts_asked = now;
  }
  std::stop_source late;
  std::mutex mutex;  // next, working
  std::condition_variable done;
  size_t next = 0;
  size_t working = std::min(asked.size(), kAskedAtOnce);
  auto ask = [&] {
    std::unique_lock lock(mutex);
    while (next < asked.size() && !late.stop_requested()) {
      const std::string& name = asked[next++];
      lock.unlock();
      v1::GetFactsRequest request;
      request.set_refresh(true);
      auto link = Link(name);
      auto answer = link.ok() ? (*link)->GetFacts(request, late.get_token())
                              : Result<v1::GetFactsResponse>(link.status());
      if (answer.ok() && answer->ByteSizeLong() > kMaxMachineBytes)
        answer = InvalidInput(name, absl::StrCat("facts of ", answer->ByteSizeLong(), " bytes, at most ",
                                                 kMaxMachineBytes, " are taken"));
      if (answer.ok()) {
        std::lock_guard entries(mutex_);
        auto entry = machines_.find(name);
        if (entry != machines_.end() && entry->second.stored.job_id.empty())
          entry->second.facts = answer->facts();
      } else {
        Log(LogLevel::kWarning, "machine.facts_old",
            {{"machine", name}, {"error", std::string(answer.status().message())}});
      }
      lock.lock();
    }
    --working;
    done.notify_all();
  };
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < std::min(asked.size(), kAskedAtOnce); ++i) threads.emplace_back(ask);
  {
    std::unique_lock lock(mutex);
    done.wait_for(lock, within, [&] { return working == 0; });
  }
  late.request_stop();
  threads.clear();  // joins
}

Status Registry::KeepFacts(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::optional<v1::Facts> facts;
    {
      std::lock_guard lock(mutex_);
      auto found = machines_.find(name);
      if (found != machines_.end()) facts = found->second.facts;
    }
    if (facts) POOLMARK_RETURN_IF_ERROR(store_->SaveFacts(name, *facts));
  }
  return absl::OkStatus();
}

Result<AgentLinkPtr> Registry::Link(const std::string& machine) {
  std::string address;
  {
    std::lock_guard lock(mutex_);
    auto found = machines_.find(machine);
    if (found == machines_.end()) return UnknownMachine(machine);
    Entry& entry = found->second;
    address = entry.stored.registration.address();
    if (entry.link && entry.link_address == address) return entry.link;
  }
  AgentLinkPtr link = make_link_(machine, address);
  if (!link)
    return Unavailable(absl::StrCat("machine '", machine, "'"), absl::StrCat("no link to ", address));
  std::lock_guard lock(mutex_);
  if (auto found = machines_.find(machine); found != machines_.end()) {
    found->second.link = link;
    found->second.link_address = address;
  }
  return link;
}

}  // namespace poolmark::controller
