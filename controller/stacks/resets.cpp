#include "controller/stacks/resets.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace poolmark::controller {

void AddResets(const Instance& instance, PlannedProcess* planned) {
  const spec::ProcessTemplate& process = *instance.process;
  auto http_step = [&](const std::string& text) {
    v1::ResetStep step;
    std::vector<std::string> words = absl::StrSplit(text, absl::MaxSplits(' ', 1));
    step.set_process(instance.id);
    step.set_method(words.size() == 2 ? words[0] : "POST");
    step.set_url(planned->base_url + words.back());
    return step;
  };
  auto redis_step = [&](const std::string& command) {
    v1::ResetStep step;
    step.set_process(instance.id);
    step.set_method("REDIS");
    step.set_url(absl::StrCat("redis://", planned->base_url.size() > 7 ? planned->base_url.substr(7) : ""));
    step.set_body(command);
    return step;
  };
  if (!process.reset.http.empty()) planned->resets.push_back(http_step(process.reset.http));
  if (!process.evict.empty()) planned->evicts.push_back(http_step(process.evict));
  if (!process.reset.redis.empty()) planned->resets.push_back(redis_step(process.reset.redis));
  if (!process.empty.redis.empty()) {
    planned->empties.push_back(redis_step(process.empty.redis));
    planned->empties.back().set_expect("0");
  }
  if (!process.empty.http.empty()) {
    planned->empties.push_back(http_step(process.empty.http));
    planned->empties.back().set_expect(process.empty.http_expect);
  }
  if (!process.empty.series.empty()) {
    v1::ResetStep step;
    step.set_process(instance.id);
    step.set_method("SERIES");
    step.set_url(planned->metrics_url);
    step.set_body(process.empty.series);
    step.set_expect("0");
    planned->empties.push_back(step);
  }
}

}  // namespace poolmark::controller
