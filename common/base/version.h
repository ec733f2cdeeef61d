// The program's own version. Thread-safe; values never change while a process runs.
#pragma once
#include <string>

namespace poolmark {

// "1.2.0-abc1234" when the commit is known, else "1.2.0" (specification: result files, "Versions").
// The commit comes from POOLMARK_COMMIT at configure time.
const std::string& Version();

}  // namespace poolmark
