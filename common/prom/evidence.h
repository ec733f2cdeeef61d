// Live evidence that users add to the shipped catalogue (`poolmark catalogue confirm`): JSON Lines, one look
// at one page each, kept in the controller's state. Append-only; a crash costs at most the last line, which
// is then skipped and named.
#pragma once
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/prom/catalogue.h"

namespace poolmark::prom {

// The file's name in the controller's state directory.
inline constexpr char kEvidenceFile[] = "catalogue-evidence.jsonl";

struct EvidenceRecord {
  std::string dialect;
  Evidence evidence;
  std::vector<std::string> series;  // seen on the page
};

Status AppendEvidence(const std::string& path, const EvidenceRecord& record);
// Adds what the file confirms to the catalogue; an absent file is no error. Lines that cannot be read, or
// name an unknown dialect, are left out and listed in `skipped` when it is given.
Status ApplyEvidence(const std::string& path, Catalogue* catalogue,
                     std::vector<std::string>* skipped = nullptr);

// The dialect that knows most of a page's series; nothing when none knows any.
const Dialect* GuessDialect(const Catalogue& catalogue, const std::vector<Sample>& samples);

}  // namespace poolmark::prom
