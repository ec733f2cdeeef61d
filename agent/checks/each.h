// The checks themselves, one function and one file each; RunChecks (checks.h) calls them in order. Not for
// use outside this directory and its tests.
#pragma once
#include <string>

#include "agent/checks/checks.h"

namespace poolmark::agent {

// A result under way: outcome and the four texts. Evidence is cut to a few kilobytes.
struct Finding {
  v1::Outcome outcome = v1::OUTCOME_PASS;
  std::string expected;
  std::string observed;
  std::string evidence;
  std::string hint;
};
Finding Skipped(std::string why);

Finding CheckClock(const v1::CheckPlan& plan, const CheckContext& context);
Finding CheckTools(const v1::CheckPlan& plan, const CheckContext& context);
Finding CheckExecutables(const v1::CheckPlan& plan, const CheckContext& context);
Finding CheckSecrets(const v1::CheckPlan& plan, const CheckContext& context);
Finding CheckGpuFamily(const v1::CheckPlan& plan, const CheckContext& context);
Finding CheckNvlink(const v1::CheckPlan& plan, const CheckContext& context);
Finding CheckRdmaPorts(const v1::CheckPlan& plan, const CheckContext& context);
Finding CheckMtu(const v1::CheckPlan& plan, const CheckContext& context);
Finding CheckMemlock(const v1::CheckPlan& plan, const CheckContext& context);
Finding CheckDiskSpace(const v1::CheckPlan& plan, const CheckContext& context);
Finding CheckPortsFree(const v1::CheckPlan& plan, const CheckContext& context);
Finding CheckPublicPorts(const v1::CheckPlan& plan, const CheckContext& context);
Finding CheckSecretsInPs(const v1::CheckPlan& plan, const CheckContext& context);
Finding CheckLeftovers(const v1::CheckPlan& plan, const CheckContext& context);

// Appends a line to evidence and the like, bounded.
void AddLine(std::string* text, const std::string& line);
// "a, b, c and 4 more".
std::string Shorten(const std::vector<std::string>& items, size_t most = 5);

}  // namespace poolmark::agent
