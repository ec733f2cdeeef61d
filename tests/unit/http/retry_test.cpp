#include "common/http/retry.h"

#include <catch2/catch.hpp>

namespace poolmark::http {
namespace {

// Answers in the order given; the last one for ever.
class Scripted : public Client {
 public:
  explicit Scripted(std::vector<Result<Response>> answers) : answers_(std::move(answers)) {}
  Result<Response> Send(const Request&) override {
    return answers_[std::min(static_cast<size_t>(sent_++), answers_.size() - 1)];
  }
  Result<Response> Stream(const Request& request, const OnData&) override { return Send(request); }
  int sent() const { return sent_; }

 private:
  std::vector<Result<Response>> answers_;
  int sent_ = 0;
};

Response With(int status, Headers headers = {}) {
  return {status, std::move(headers), ""};
}
Status Timeout() {
  return ToStatus(Error{absl::StatusCode::kUnavailable, "timed_out", "", "timed out", ""});
}

}  // namespace

TEST_CASE("what may pass is asked again, three times at most, with the waits of the server or one's own") {
  using std::chrono::milliseconds;
  std::vector<Nanoseconds> waits;
  const auto sleep = [&](Nanoseconds wait) { waits.push_back(wait); };
  const auto ask = [&](std::vector<Result<Response>> answers, int expected_sent) {
    waits.clear();
    Scripted client(std::move(answers));
    Result<Response> response = SendWithRetries(client, {}, sleep);
    CHECK(client.sent() == expected_sent);
    return response;
  };
  CHECK(ask({With(200)}, 1)->status == 200);
  CHECK(ask({With(503), With(200)}, 2)->status == 200);
  CHECK(waits == std::vector<Nanoseconds>{milliseconds(500)});
  CHECK(ask({With(500), Unavailable("u", "refused"), With(200)}, 3)->status == 200);
  CHECK(waits == std::vector<Nanoseconds>{milliseconds(500), milliseconds(1000)});
  CHECK(ask({With(429, {{"Retry-After", "7"}}), With(200)}, 2)->status == 200);
  CHECK(waits == std::vector<Nanoseconds>{std::chrono::seconds(7)});
  CHECK(ask({With(429, {{"retry-after-ms", "20"}, {"retry-after", "7"}}), With(200)}, 2)->status == 200);
  CHECK(waits == std::vector<Nanoseconds>{milliseconds(20)});
  for (const char* unheeded : {"3600", "-1", "0", "nan", "Wed, 21 Oct 2026 07:28:00 GMT"}) {
    INFO(unheeded);
    CHECK(ask({With(503, {{"Retry-After", unheeded}}), With(200)}, 2)->status == 200);
    CHECK(waits == std::vector<Nanoseconds>{milliseconds(500)});
  }
  CHECK(ask({With(503)}, 3)->status == 503);
  CHECK(!ask({Unavailable("u", "refused")}, 3).ok());
  // These do not get better, or would be waited for as long again.
  for (int status : {200, 301, 400, 401, 404, 422}) CHECK(ask({With(status)}, 1)->status == status);
  CHECK(!ask({Timeout()}, 1).ok());
  CHECK(!ask({Status(absl::CancelledError("stopped"))}, 1).ok());
  Scripted once({With(503)});
  CHECK(SendWithRetries(once, {}, {})->status == 503);
  CHECK(once.sent() == 1);
}

}  // namespace poolmark::http
