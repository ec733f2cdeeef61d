#include "agent/checks/fabric.h"

#include <algorithm>

#include "agent/facts/text.h"

namespace poolmark::agent {
namespace {

std::string Plain(std::string_view name) {
  std::string out = Lower(name);
  std::erase(out, '_');
  return out;
}

// Text of the first element of that (plain) name; empty when there is none.
std::string ElementText(std::string_view xml, std::string_view plain_name) {
  size_t at = 0;
  while ((at = xml.find('<', at)) != std::string_view::npos) {
    const size_t close = xml.find('>', at);
    if (close == std::string_view::npos) return "";
    const std::string_view tag = xml.substr(at + 1, close - at - 1);
    const std::string_view name = tag.substr(0, tag.find_first_of(" /"));
    at = close + 1;
    if (Plain(name) != plain_name) continue;
    const size_t end = xml.find('<', at);
    if (end == std::string_view::npos) return "";
    return std::string(Trim(xml.substr(at, end - at)));
  }
  return "";
}

}  // namespace

bool FabricGpu::joined() const {
  const bool configured = cluster.find_first_not_of("0-") != std::string::npos && cluster != "N/A";
  return Lower(state) == "completed" && Lower(status) == "success" && configured;
}

std::vector<FabricGpu> ParseFabric(std::string_view xml) {
  std::vector<FabricGpu> gpus;
  size_t at = 0;
  while ((at = xml.find("<gpu ", at)) != std::string_view::npos) {
    const size_t next = xml.find("<gpu ", at + 5);
    const std::string_view block = xml.substr(at, next == std::string_view::npos ? next : next - at);
    FabricGpu gpu;
    const size_t id = block.find("id=\"");
    if (id != std::string_view::npos && id < block.find('>')) {
      gpu.gpu = std::string(block.substr(id + 4, block.find('"', id + 4) - id - 4));
    }
    const size_t fabric = block.find("<fabric>");
    if (fabric != std::string_view::npos) {
      const std::string_view part = block.substr(fabric, block.find("</fabric>", fabric) - fabric);
      gpu.state = ElementText(part, "state");
      gpu.status = ElementText(part, "status");
      gpu.cluster = ElementText(part, "clusteruuid");
      gpu.clique = ElementText(part, "cliqueid");
    }
    gpus.push_back(std::move(gpu));
    if (next == std::string_view::npos) break;
    at = next;
  }
  return gpus;
}

ImexDomain ParseImex(std::string_view text) {
  ImexDomain domain;
  for (std::string_view line : Lines(text)) {
    const std::string_view trimmed = Trim(line);
    if (trimmed.substr(0, 13) == "Domain State:") domain.up = Trim(trimmed.substr(13)) == "UP";
    if (trimmed.substr(0, 6) != "Node #") continue;
    std::string address, state;
    for (std::string_view field : Fields(trimmed)) {
      if (field == "Node" || field.front() == '#' || field == "*" || field == "-") continue;
      if (address.empty()) {
        address = std::string(field);
      } else if (state.empty()) {
        state = std::string(field);
      }
    }
    if (state == "READY") {
      domain.ready.push_back(address);
    } else {
      domain.others.push_back(address + " " + state);
    }
  }
  return domain;
}

}  // namespace poolmark::agent
