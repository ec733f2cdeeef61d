// Fills the ${...} of a stack file for one instance. Pure. What can be named (docs/stacks.md):
//   ${<param>}                     a parameter of the stack
//   ${port.<name>} ${url.<name>} ${hostport.<name>}   of this process; ${address} of its machine
//   ${<process>.port.<name>} …     of another process: the instance on the same machine, else the only one
//   ${list.<process>.url.<name>}   of all its instances, with commas
//   ${dir.<name>} ${work}          its directory; the job's directory on the machine
//   ${bytes.<source>} ${gib.<source>} ${mib.<source>}   size of its tier (host, storage, remote)
//   ${kv.block_tokens} ${kv.chunk_tokens} ${kv.hash_seed} ${kv.dtype}
//   ${index} ${count} ${machine} ${job} ${stack} ${run} ${gpus}
#pragma once
#include <map>
#include <string>
#include <vector>

#include "controller/stacks/place.h"

namespace poolmark::controller {

struct FillContext {
  const spec::StackSpec* stack = nullptr;
  const std::vector<Instance>* instances = nullptr;
  std::string job_id;
  // Instance id -> tier source name -> bytes.
  std::map<std::string, std::map<std::string, uint64_t>> tier_bytes;
};

// The directory of an instance: `disk_path` filled, else below the machine's disk.
Result<std::string> DirectoryOf(const FillContext& context, const Instance& instance);
// The text with every ${...} replaced; an error names the first that means nothing.
Result<std::string> Fill(const FillContext& context, const Instance& instance, const std::string& text);
// The argv of an instance, with {each: …} words unfolded.
Result<std::vector<std::string>> FillArgv(const FillContext& context, const Instance& instance);
// "http://address:port" of a port of an instance.
std::string UrlOf(const Instance& instance, const std::string& port);

}  // namespace poolmark::controller
