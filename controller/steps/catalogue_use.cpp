#include "controller/steps/catalogue_use.h"

#include <map>
#include <mutex>

namespace poolmark::controller {

std::shared_ptr<const prom::Catalogue> CatalogueIn(const std::string& directory) {
  static std::mutex mutex;  // guards the map
  static std::map<std::string, std::weak_ptr<const prom::Catalogue>> known;
  const std::lock_guard lock(mutex);
  if (auto catalogue = known[directory].lock()) return catalogue;
  auto loaded = prom::Catalogue::Load(directory);
  if (!loaded.ok()) return nullptr;
  auto catalogue = std::make_shared<const prom::Catalogue>(std::move(*loaded));
  known[directory] = catalogue;
  return catalogue;
}

}  // namespace poolmark::controller
