// The tokens that an engine puts around the words of a prompt: a chat template, or what begins every text.
// They are shared like the words and move every block, so that reuse is counted with them. Pure.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "common/workload/sent_answers.h"
#include "common/workload/spec.h"

namespace poolmark::workload {

struct Template {
  int64_t first = 0;        // before the first word
  int64_t per_message = 0;  // chat: between two messages, and after the last one
  // Conversations of one length tell only the sum; the parts are then taken as equal.
  bool parts_known = true;
  bool operator==(const Template&) const = default;
};

// From the planned lengths of what was sent, which count a template as the engine's tokenizer did: what a
// prompt has more than its words, by its number of messages. A template opens the answer with as many tokens
// as any message, so that what is left of the whole when each message has had its share stands before the
// first word. No tokens where the lengths do not fit such a template.
Template TemplateOf(const Workload& planned, const WorkloadSpec& spec,
                    const std::vector<SentRequest>& requests);

// The prompts with these tokens. `of` must outlive what is returned.
std::unique_ptr<Workload> WithTemplate(const Workload& of, const Template& tokens, bool chat);

}  // namespace poolmark::workload
