// What a request of a client may hold beside what its specs say: each job is listed with its labels, each
// answer is stored under its request's id, each input becomes a file. Pure; thread-safe.
#pragma once
#include <string>

#include "common/base/result.h"
#include "poolmark/v1/controller.pb.h"

namespace poolmark::controller {

inline constexpr size_t kMaxRequestId = 200;  // bytes; a UUID has 36
inline constexpr size_t kMaxName = 200;  // bytes of a job's name, and of the last part of an input's path
inline constexpr size_t kMaxLabels = 64;
inline constexpr size_t kMaxLabelBytes = 256;  // of a key, and of a value
inline constexpr size_t kMaxInputs = 1000;
inline constexpr size_t kMaxPath = 1000;      // bytes of an input's whole path
inline constexpr size_t kMaxSettings = 1000;  // of `set`, each with at most kMaxSettingBytes
inline constexpr size_t kMaxSettingBytes = 4096;
inline constexpr size_t kMaxReason = 1000;  // bytes of what an operator says about a machine

Status CheckRequestId(const std::string& request_id);

// All at once. The job's name is the one it will have, also where the request leaves it out.
void CheckSubmission(const v1::SubmitJobRequest& request, Errors* errors);

}  // namespace poolmark::controller
