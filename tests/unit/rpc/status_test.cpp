// Errors over the wire and back.
#include "common/rpc/status.h"

#include <catch2/catch.hpp>

#include "common/rpc/address.h"

namespace poolmark::rpc {

TEST_CASE("an error keeps code, place, message and hint over the wire") {
  Status sent = InvalidInput("job.yaml:12:5 repeats", "0 is below 1", "give at least 1");
  grpc::Status wire = ToGrpc(sent);
  CHECK(wire.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  Error got = ErrorOf(FromGrpc(wire));
  CHECK(got.code == "invalid_input");
  CHECK(got.where == "job.yaml:12:5 repeats");
  CHECK(got.message == "0 is below 1");
  CHECK(got.hint == "give at least 1");
  CHECK(ToGrpc(absl::OkStatus()).ok());
  CHECK(FromGrpc(grpc::Status::OK).ok());
  CHECK(ErrorsOf(absl::OkStatus()).empty());
}

TEST_CASE("all errors of a file arrive apart") {
  Errors errors;
  for (int i = 0; i < 20; ++i) {
    errors.push_back(
        {absl::StatusCode::kInvalidArgument, "c" + std::to_string(i), "f:" + std::to_string(i), "m", "h"});
  }
  Status got = FromGrpc(ToGrpc(errors));
  Errors back = ErrorsOf(got);
  REQUIRE(back.size() == 20);
  CHECK(back[7].code == "c7");
  CHECK(back[7].where == "f:7");
  // And once more, as a controller does that passes on what an agent said.
  CHECK(ErrorsOf(FromGrpc(ToGrpc(got))).size() == 20);
}

TEST_CASE("thousands of errors and endless texts stay bounded and say what was left out") {
  Errors errors;
  for (int i = 0; i < 5000; ++i)
    errors.push_back({absl::StatusCode::kInvalidArgument, "c", "w", std::string(300, 'x'), ""});
  grpc::Status wire = ToGrpc(errors);
  CHECK(wire.error_details().size() < (256u << 10));
  CHECK(wire.error_message().size() < 4096);
  Errors back = ErrorsOf(FromGrpc(wire));
  CHECK(back.back().code == "more_errors");
  CHECK(back.back().message == std::to_string(5000 - (back.size() - 1)) + " more errors");
  grpc::Status one = ToGrpc(InvalidInput("w", std::string(1 << 20, 'y')));
  CHECK(one.error_message().size() < 4096);
  CHECK(one.error_details().size() < 8192);
}

TEST_CASE("details that are no ErrorDetail are ignored") {
  Status got = FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "away", "\xff\xff garbage"));
  CHECK(got.code() == absl::StatusCode::kUnavailable);
  CHECK(ErrorOf(got).code == "unavailable");
  CHECK(ErrorOf(FromGrpc(grpc::Status(grpc::StatusCode::INTERNAL, ""))).message ==
        "the call failed without a message");
  CHECK(ToGrpc(InvalidInput("w", "bad \xff byte")).error_message().find("\xff") == std::string::npos);
}

TEST_CASE("addresses") {
  CHECK(ParseHostPort("127.0.0.1:7443")->port == 7443);
  CHECK(ParseHostPort("[::1]:0")->host == "::1");
  CHECK(ParseHostPort("head.lab:1")->host == "head.lab");
  CHECK(FormatHostPort("::1", 5) == "[::1]:5");
  for (const char* bad : {"", "host", "host:", ":1", "host:x", "host:-1", "host:65536", "::1:5", "[::1]",
                          "[::g]:5", "[host]:5", "h:1:2"}) {
    INFO(bad);
    CHECK_FALSE(ParseHostPort(bad).ok());
  }
  CHECK(IsAnyAddress("0.0.0.0"));
  CHECK(IsAnyAddress("::"));
  CHECK(IsAnyAddress("::ffff:0.0.0.0"));
  CHECK_FALSE(IsAnyAddress("127.0.0.1"));
  CHECK_FALSE(IsAnyAddress("host"));
  CHECK(IsLoopbackAddress("127.8.0.1"));
  CHECK(IsLoopbackAddress("::1"));
  CHECK(IsLoopbackAddress("::ffff:127.0.0.1"));
  CHECK_FALSE(IsLoopbackAddress("128.0.0.1"));
}

}  // namespace poolmark::rpc
