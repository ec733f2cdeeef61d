// fuzz: sim
// What a client can send to the simulated engine: bodies, faults, texts.
#include <cstdlib>

#include "agent/sim/api.h"
#include "agent/sim/faults.h"
#include "agent/sim/router_body.h"

using namespace poolmark::sim;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (bool chat : {false, true}) {
    GenerateRequest request;
    if (!ParseGenerate(bytes, chat, &request) && request.prompt.empty()) std::abort();
  }
  std::vector<Token> tokens;
  bool strings = false;
  (void)ParseTokenize(bytes, &tokens, &strings);
  tokens.clear();
  if (!ParseDetokenize(bytes, &tokens)) (void)DetokenizeReply(tokens);
  tokens.clear();
  Encode(bytes, &tokens);
  if (Decode(tokens) != bytes) std::abort();
  auto fault = ParseFault(bytes);
  if (fault.ok() && !ParseFault(fault->ToString()).ok()) std::abort();
  (void)PrefillBody(bytes);
  (void)DecodeBody(bytes, bytes);
  return 0;
}
