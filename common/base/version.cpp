#include "common/base/version.h"

#include "common/base/version_data.h"

namespace poolmark {

const std::string& Version() {
#ifdef POOLMARK_COMMIT
  static const std::string version = std::string(POOLMARK_VERSION) + "-" + POOLMARK_COMMIT;
#else
  static const std::string version = POOLMARK_VERSION;
#endif
  return version;
}

}  // namespace poolmark
