// Where BMC logins go: to the address, in the way, that the machine's administrator gave each for, and
// nowhere else. The controller says which of them it wants read; it cannot add one. Reads the allow-list;
// thread-safe.
#pragma once
#include <string>
#include <vector>

#include "common/base/result.h"
#include "poolmark/v1/agent.pb.h"

namespace poolmark::agent {

// Of the targets those that ask a BMC over the network; the one in this machine needs no login. All refusals
// at once (code "not_allowed"), with the lines to write. Says in each URL whether the certificate is
// verified, which is the administrator's word, too.
Status CheckBmcTargets(const std::string& allow_file, std::vector<v1::ScrapeTarget>* targets);

}  // namespace poolmark::agent
