// `relay: store`: the store listens on the loopback interface of its machine, a TLS relay stands before it,
// and every other machine of the stack has the other end on its own loopback interface. Where a stack file
// says
// ${store.port.main}, each machine gets what it can reach. Pure but for MakeRelayFiles, which draws keys.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "controller/stacks/place.h"

namespace poolmark::controller {

// The ends of the links, as further instances of a stack: role `relay`, one server for each port of a store
// and one client on each other machine. `templates` owns their process templates and must outlive the
// instances. The stores' instances move to the loopback interface. What cannot be relayed goes to `refusals`.
std::vector<Instance> PlaceRelays(const spec::StackSpec& stack, const std::vector<PoolMachine>& machines,
                                  std::vector<Instance>* instances, PortPool* ports,
                                  std::deque<spec::ProcessTemplate>* templates, Errors* refusals);

// Keys for every relay process of a stack: process id -> its files. Each server accepts its clients' keys and
// no other, each client its server's, which is the head machine's.
Result<std::map<std::string, std::vector<v1::InputFile>>> MakeRelayFiles(const StackPlan& stack,
                                                                         Nanoseconds wall);

}  // namespace poolmark::controller
