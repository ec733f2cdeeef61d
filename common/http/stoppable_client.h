// A client whose exchanges end at once when a stop is requested: for long answers that a Ctrl-C or the end of
// a job must not wait for. Resolving a host's name is the one thing that still runs to its end. Thread-safe
// as Client is.
#pragma once
#include <memory>
#include <stop_token>

#include "common/http/client.h"

namespace poolmark::http {

// Calls under way and later ones fail with kCancelled once `stop` is requested.
std::unique_ptr<Client> MakeStoppableClient(std::stop_token stop);

}  // namespace poolmark::http
