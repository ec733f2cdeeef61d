// Messages of the API as JSON (every field, stable names, durations in seconds, times in RFC 3339) and as
// words. Pure.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/output/table.h"
#include "poolmark/v1/controller.pb.h"

namespace poolmark::cli {

// "BENCHMARKING"; "UNKNOWN" for values of a newer controller.
std::string StateWord(v1::JobState state);
std::string TeardownWord(v1::TeardownVerdict verdict);
std::string MachineWord(v1::MachineState state);
std::string OutcomeWord(v1::Outcome outcome);
Colour StateColour(v1::JobState state);
Colour MachineColour(v1::MachineState state);
bool IsTerminal(v1::JobState state);

// The exit code of a job that has ended (exit_code.h); a tear-down that is not clean outranks the outcome.
int ExitCodeOfJob(const v1::Job& job);

// "cycle 2, cand/chat c16, repeat 1, measured (3 of 12 repeats done)"; empty before the first cycle.
std::string PositionText(const v1::JobPosition& position);

Json JobJson(const v1::Job& job);
Json EventJson(const v1::JobEvent& event);
Json MachineJson(const v1::Machine& machine);
Json StackJson(const v1::StackInfo& stack);
Json FactsJson(const v1::Facts& facts);

// "12:04:31 check     n1  ports_free FAIL: 8000 is taken by …", one line, without a line end.
// "engine_failed on n1: …"; further lines, such as the last ones of a log, behind `indent`.
std::string ReasonText(const v1::Reason& reason, const std::string& indent);
std::string EventLine(const v1::JobEvent& event);
// What a progress tick says, in order: "in_flight 16  output_tokens_per_second 812.4".
std::string ProgressText(const std::string& data_json);

}  // namespace poolmark::cli
