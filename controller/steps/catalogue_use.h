// The catalogue of series as the steps use it: which dialect a process speaks. Thread-safe.
#pragma once
#include <memory>
#include <string>

#include "common/prom/catalogue.h"
#include "controller/steps/plan.h"

namespace poolmark::controller {

// The catalogue in this directory, read once for all that ask while somebody holds it. Null where it cannot
// be read: series are then added up without it, and nothing is claimed of those that are absent.
std::shared_ptr<const prom::Catalogue> CatalogueIn(const std::string& directory);

// The dialect of this process; null: the catalogue has none, or there is no catalogue.
inline const prom::Dialect* DialectOf(const prom::Catalogue* catalogue, const PlannedProcess& process) {
  return catalogue == nullptr ? nullptr : catalogue->Find(process.dialect);
}

}  // namespace poolmark::controller
