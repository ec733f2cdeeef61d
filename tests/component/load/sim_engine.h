// The simulated engine as a process of its own, for loads that need an engine which counts.
#pragma once
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/component/load/process.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

namespace poolmark::load::test {

// The simulated engine on a port of its own choice.
class SimEngine {
 public:
  explicit SimEngine(const std::vector<std::string>& more = {}) {
    std::vector<std::string> argv = {
        poolmark::test::BuiltProgram("poolmark-sim"), "engine", "--port", "0", "--model", "sim"};
    argv.insert(argv.end(), more.begin(), more.end());
    process_ = std::make_unique<poolmark::test::Process>(argv, dir_ / "engine");
    for (int i = 0; i < 3000 && port_.empty(); ++i) {
      const std::string out = process_->out();
      constexpr std::string_view kWord = "listening 127.0.0.1:";
      if (const size_t at = out.find(kWord);
          at != std::string::npos && out.find('\n', at) != std::string::npos)
        port_ = out.substr(at + kWord.size(), out.find('\n', at) - at - kWord.size());
      if (port_.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    INFO(process_->out() << process_->err());
    REQUIRE_FALSE(port_.empty());
  }
  std::string url() const { return "http://127.0.0.1:" + port_; }

 private:
  poolmark::test::TempDir dir_;
  std::unique_ptr<poolmark::test::Process> process_;
  std::string port_;
};

}  // namespace poolmark::load::test
