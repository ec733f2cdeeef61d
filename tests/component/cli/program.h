// Runs one of our programs as a child, with its output in files. Not thread-safe.
#pragma once
#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace poolmark::test {

struct Outcome {
  int code = -1;  // exit code; 128 + signal when killed
  std::string out;
  std::string err;
};

class Program {
 public:
  // `name`: "poolmark"; `environment` is added to this process's own.
  Program(const std::string& name, const std::vector<std::string>& arguments,
          const std::map<std::string, std::string>& environment = {}, const std::string& input = "");
  ~Program();  // kills it
  void Signal(int number);
  Outcome Wait();
  // What it has written to stdout so far.
  std::string Out() const;
  std::string Err() const;

 private:
  TempDir dir_;
  pid_t pid_ = -1;
};

Outcome Run(const std::string& name, const std::vector<std::string>& arguments,
            const std::map<std::string, std::string>& environment = {}, const std::string& input = "");

}  // namespace poolmark::test
