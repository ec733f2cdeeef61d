// One process of a stack file: its keys, and the form of each text in it. What an agent would refuse when it
// is to start the process is refused here, where file and line are known; the agent checks again.
#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/units.h"
#include "common/base/variables.h"
#include "common/spec/stack_parts.h"
#include "common/spec/versions.h"

namespace poolmark::spec {
namespace {

const std::vector<std::string> kRoles = {"store", "cache", "engine", "prefill", "decode", "router"};
const std::vector<std::string> kMethods = {"GET", "POST", "PUT", "PATCH", "DELETE"};
const std::vector<std::string> kFormatFields = {"block_tokens", "chunk_tokens", "hash_seed", "dtype",
                                                "serializer"};

// No blank and nothing that cannot be seen.
bool IsOneWord(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c)) || (c & 0x80) != 0;
  });
}

bool IsAbsolute(const std::string& path) {
  return absl::StartsWith(path, "/") && !absl::StrContains(absl::StrCat(path, "/"), "/../");
}

using Members = std::vector<std::pair<std::string, Value>>;

// The texts of a list, or one text, each with its place.
std::vector<std::pair<Value, std::string>> Items(const Value& value) {
  if (value.is_text()) return {{value, *value.Text()}};
  std::vector<std::pair<Value, std::string>> items;
  for (const Value& item : value.List()) {
    if (auto text = item.Text()) items.emplace_back(item, *text);
  }
  return items;
}

std::map<std::string, std::string> Texts(const Members& members) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : members) {
    if (auto text = value.Text()) texts[key] = *text;
  }
  return texts;
}

void CheckVariables(const Members& members, const std::map<std::string, std::string>* other) {
  for (const auto& [name, value] : members) {
    if (!IsVariable(name)) {
      value.Fail(absl::StrCat("'", name, "' is no name of a variable"),
                 "letters, digits and '_', no digit first");
    } else if (ChangesProgram(name)) {
      value.Fail(absl::StrCat("variable ", name, " cannot be set by a job"),
                 "it changes what a program is; remove it");
    } else if (other != nullptr && other->contains(name)) {
      value.Fail(absl::StrCat("variable ", name, " is in `env` and in `secrets`"), "remove one");
    }
  }
}

ReadySpec ReadReady(const Value& value) {
  ReadySpec ready;
  Map map(value);
  if (auto http = map.Get("http")) {
    ready.http = http->Text().value_or("");
    CheckPath(*http, ready.http);
  }
  map.OneOf("redis", {"PING"}, &ready.redis);
  map.Text("tcp", &ready.tcp);
  map.Duration("within", std::chrono::milliseconds(100), std::chrono::hours(6), &ready.within);
  map.Finish();
  const int ways =
      int{map.Get("http").has_value()} + int{map.Get("redis").has_value()} + int{map.Get("tcp").has_value()};
  if (map.ok() && ways != 1)
    value.Fail(absl::StrCat("has ", ways, " of http, redis and tcp, one is needed"),
               "write for example {http: /health, within: 30m}");
  return ready;
}

ResetSpec ReadReset(const Value& value) {
  ResetSpec reset;
  if (value.is_text()) {
    if (value.OneOf({"restart"})) reset.restart = true;
    return reset;
  }
  Map map(value);
  if (auto http = map.Get("http")) {
    reset.http = http->Text().value_or("");
    CheckRequest(*http, reset.http);
  }
  map.OneOf("redis", {"FLUSHALL", "FLUSHDB"}, &reset.redis);
  map.Finish();
  if (map.ok() && map.Get("http").has_value() == map.Get("redis").has_value())
    value.Fail("needs http or redis, one of them", "write {http: POST /path}, {redis: FLUSHALL} or restart");
  return reset;
}

EmptySpec ReadEmpty(const Value& value) {
  EmptySpec empty;
  if (value.is_text()) {
    if (value.OneOf({"canary"})) empty.canary = true;
    return empty;
  }
  Map map(value);
  map.OneOf("redis", {"DBSIZE"}, &empty.redis);
  map.Text("series", &empty.series);
  auto http = map.Get("http");
  if (http) {
    empty.http = http->Text().value_or("");
    CheckRequest(*http, empty.http);
  }
  auto expect = map.Get("expect");
  if (expect) empty.http_expect = expect->Text().value_or("");
  map.Finish();
  if (!map.ok()) return empty;
  if (!map.Get("redis") && !map.Get("series") && !http)
    value.Fail("says nothing to ask",
               "write canary, {redis: DBSIZE}, {series: name} or {http: GET /x, expect: text}");
  if (http && empty.http_expect.empty())
    http->Fail("has no `expect`", "say which text the answer holds when nothing is cached");
  if (expect && !http) expect->Fail("is for http, which is not there");
  return empty;
}

MetricsSpec ReadMetrics(const Value& value, const Names& names) {
  MetricsSpec metrics;
  Map map(value);
  map.Text("port", &metrics.port);
  if (auto dialect = map.Need("dialect", "which series it has, for example vllm")) {
    metrics.dialect = dialect->Text().value_or("");
    const auto& known = names.dialects;
    if (!known.empty() && std::find(known.begin(), known.end(), metrics.dialect) == known.end()) {
      const std::string near = Nearest(metrics.dialect, known);
      dialect->Fail(absl::StrCat("'", metrics.dialect, "' is no dialect of the catalogue"),
                    near.empty() ? absl::StrCat("known: ", absl::StrJoin(known, ", "))
                                 : absl::StrCat("did you mean '", near, "'?"));
    }
  }
  if (auto path = map.Get("path")) {
    metrics.path = path->Text().value_or("");
    CheckPath(*path, metrics.path);
  }
  map.Finish();
  return metrics;
}

std::vector<ArgWord> ReadArgv(const Value& value, std::vector<FilledText>* texts) {
  std::vector<ArgWord> words;
  for (const Value& item : value.List()) {
    ArgWord word;
    if (item.is_text()) {
      word.text = *item.Text();
      texts->push_back({item, word.text, ""});
    } else {
      Map map(item);
      if (auto each = map.Need("each")) word.each = each->Text().value_or("");
      if (auto text = map.Need("value")) {
        word.text = text->Text().value_or("");
        if (!word.each.empty()) texts->push_back({item, word.text, word.each});
      }
      map.Finish();
    }
    words.push_back(std::move(word));
  }
  return words;
}

std::vector<AttachPoint> ReadAttach(const Value& value) {
  std::vector<AttachPoint> points;
  const auto check = [](const Value& url, const std::string& text) {
    const bool form = absl::StartsWith(text, "http://") || absl::StartsWith(text, "https://") ||
                      absl::StartsWith(text, "redis://");
    if (!form || !IsOneWord(text))
      url.Fail(absl::StrCat("'", text, "' is no address"), "write for example http://10.0.0.2:8000");
  };
  for (const Value& item : value.List()) {
    AttachPoint point;
    Map map(item);
    map.Text("machine", &point.machine);
    if (auto url = map.Need("url")) {
      point.url = url->Text().value_or("");
      check(*url, point.url);
    }
    if (auto metrics = map.Get("metrics")) {
      point.metrics = metrics->Text().value_or("");
      check(*metrics, point.metrics);
    }
    map.Finish();
    points.push_back(std::move(point));
  }
  return points;
}

void ReadProgram(Map* map, ProcessTemplate* process, std::vector<FilledText>* texts) {
  if (auto exec = map->Get("exec")) {
    process->exec = exec->Text().value_or("");
    texts->push_back({*exec, process->exec, ""});
    const bool place = absl::StrContains(process->exec, '/') && !absl::StrContains(process->exec, "${") &&
                       !IsAbsolute(process->exec);
    if (!IsOneWord(process->exec) || place) {
      exec->Fail(absl::StrCat("'", process->exec, "' is no name of a program and no absolute path"),
                 "one word of the machine's allow-list; what it is called with stands in `argv`");
    }
  }
  if (auto image = map->Get("image")) {
    process->image = image->Text().value_or("");
    if (!absl::StrContains(process->image, "@sha256:"))
      image->Fail(absl::StrCat("image '", process->image, "' is not pinned"),
                  "name it by digest: repository@sha256:…");
  }
  map->OneOf("backend", {"process", "docker", "podman"}, &process->backend);
  if (auto argv = map->Get("argv")) process->argv = ReadArgv(*argv, texts);
  if (auto env = map->Get("env")) {
    const Members members = env->Members();
    process->env = Texts(members);
    for (const auto& [name, value] : members) {
      if (value.is_text()) texts->push_back({value, *value.Text(), ""});
    }
    CheckVariables(members, nullptr);
  }
  if (auto secrets = map->Get("secrets")) {
    const Members members = secrets->Members();
    process->secrets = Texts(members);
    CheckVariables(members, &process->env);
    for (const auto& [variable, value] : members) {
      if (value.is_text() && !IsName(*value.Text()))
        value.Fail(absl::StrCat("'", *value.Text(), "' is no name of a secret"),
                   "the name of a file in the machine's secrets directory, never the secret itself");
    }
  }
  if (auto files = map->Get("files")) {
    const Members members = files->Members();
    process->files = Texts(members);
    for (const auto& [path, value] : members) {
      if (value.is_text()) texts->push_back({value, *value.Text(), ""});
      if (path.empty() || path.back() == '/' || absl::StartsWith(path, "/") ||
          absl::StrContains(absl::StrCat("/", path, "/"), "/../"))
        value.Fail(absl::StrCat("'", path, "' is no path below the job's directory"),
                   "relative, without '..', for example conf/cache.yaml");
    }
  }
}

void ReadPlaces(Map* map, ProcessTemplate* process, std::vector<FilledText>* texts) {
  if (auto disk = map->Get("disk")) {
    if (disk->is_text()) {
      process->disk = *disk->Text();
    } else {
      Map inner(*disk);
      if (auto name = inner.Need("name")) process->disk = name->Text().value_or("");
      if (auto path = inner.Get("path")) {
        process->disk_path = path->Text().value_or("");
        texts->push_back({*path, process->disk_path, ""});
        if (!IsAbsolute(process->disk_path) && !absl::StartsWith(process->disk_path, "${"))
          path->Fail(absl::StrCat("'", process->disk_path, "' is no absolute path"),
                     "write for example /mnt/kv/${run}");
        else if (!absl::StrContains(process->disk_path, "${run}"))
          path->Fail(absl::StrCat("'", process->disk_path, "' is one directory for all jobs"),
                     "a tier begins empty and is deleted at tear-down: write for example /mnt/kv/${run}");
      }
      inner.Finish();
    }
    if (!IsName(process->disk)) disk->Fail(absl::StrCat("'", process->disk, "' is no name for a directory"));
  }
  if (auto devices = map->Get("devices")) {
    for (const auto& [value, device] : Items(*devices)) {
      process->devices.push_back(device);
      if (!IsAbsolute(device.substr(0, device.find(':'))))
        value.Fail(absl::StrCat("'", device, "' is no device"), "write for example /dev/infiniband");
    }
  }
  if (auto mounts = map->Get("mounts")) {
    for (const auto& [value, mount] : Items(*mounts)) {
      process->mounts.push_back(mount);
      texts->push_back({value, mount, ""});
      const std::vector<std::string> parts = absl::StrSplit(mount, ':');
      const bool form =
          (parts.size() == 2 || (parts.size() == 3 && (parts[2] == "ro" || parts[2] == "rw"))) &&
          !parts[0].empty() && absl::StartsWith(parts[1], "/");
      if (!form && !absl::StrContains(mount, "${"))
        value.Fail(absl::StrCat("'", mount, "' is no mount"), "write source:target or source:target:ro");
    }
  }
}

void ReadPorts(const Value& value, ProcessTemplate* process) {
  std::set<std::string> seen;
  for (const auto& [place, port] : Items(value)) {
    process->ports.push_back(port);
    const bool name = !port.empty() && port.size() <= 63 && std::all_of(port.begin(), port.end(), [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
    });
    if (!name)
      place.Fail(absl::StrCat("'", port, "' is no name of a port"),
                 "a word such as http; the plan chooses the number");
    if (!seen.insert(port).second) place.Fail(absl::StrCat("names port '", port, "' twice"));
  }
}

// What belongs together within the process.
void CheckProcess(const Value& value, Map* map, const ProcessTemplate& process) {
  const auto uses = [&](const char* key, const char* inner, const std::string& port) {
    if (port.empty() || std::count(process.ports.begin(), process.ports.end(), port) != 0) return;
    const auto at = map->Get(key);
    (at ? *at : value)
        .Fail(absl::StrCat(inner, " names port '", port, "', the ports are ",
                           process.ports.empty() ? "none" : absl::StrJoin(process.ports, ", ")),
              "add it to `ports`");
  };
  uses("metrics", "port", process.metrics.port);
  uses("ready", "tcp", process.ready.tcp);
}

}  // namespace

void CheckPath(const Value& value, const std::string& text) {
  if (absl::StartsWith(text, "/") && IsOneWord(text) && !absl::StrContains(text, "${")) return;
  value.Fail(absl::StrCat("'", text, "' is no path of a URL"), "begin with '/', for example /health");
}

void CheckRequest(const Value& value, const std::string& text) {
  const size_t blank = text.find(' ');
  const std::string path = blank == text.npos ? text : text.substr(blank + 1);
  const std::string method = blank == text.npos ? "POST" : text.substr(0, blank);
  if (absl::StartsWith(path, "/") && IsOneWord(path) && !absl::StrContains(path, "${") &&
      std::count(kMethods.begin(), kMethods.end(), method) != 0)
    return;
  value.Fail(absl::StrCat("'", text, "' is no request"),
             absl::StrCat("a method (", absl::StrJoin(kMethods, ", "),
                          ") and a path, for example POST /reset_prefix_cache"));
}

ProcessParts ReadProcess(const Value& value, const Names& names, bool* ok) {
  ProcessParts parts{{}, value, {}, {}};
  ProcessTemplate& process = parts.process;
  Map map(value);
  *ok = false;
  if (auto name = map.Need("name")) {
    process.name = name->Text().value_or("");
    if (!IsName(process.name))
      name->Fail(absl::StrCat("'", process.name, "' is no name"), "use lower case letters, digits and '-'");
  }
  if (auto role = map.Need("role", absl::StrCat("one of ", absl::StrJoin(kRoles, ", ")))) {
    if (auto text = role->OneOf(kRoles)) {
      process.role = static_cast<Role>(std::find(kRoles.begin(), kRoles.end(), *text) - kRoles.begin());
      *ok = true;
    }
  }
  map.OneOf("on", {"head", "each"}, &process.on);
  map.Whole("count", 1, 4096, &process.count);
  ReadProgram(&map, &process, &parts.texts);
  if (auto ports = map.Get("ports")) ReadPorts(*ports, &process);
  if (auto gpus = map.Get("gpus")) {
    const std::string text = gpus->is_text() ? gpus->Text().value_or("") : "";
    parts.gpus = gpus;
    if (absl::StartsWith(text, "${") && absl::EndsWith(text, "}"))
      process.gpus_param = text.substr(2, text.size() - 3);
    else if (auto count = gpus->Whole(0, 1024))
      process.gpus = static_cast<unsigned>(*count);
  }
  if (auto ready = map.Get("ready")) process.ready = ReadReady(*ready);
  if (auto metrics = map.Get("metrics")) process.metrics = ReadMetrics(*metrics, names);
  if (auto reset = map.Get("reset")) process.reset = ReadReset(*reset);
  if (auto evict = map.Get("evict")) {
    Map inner(*evict);
    if (auto http = inner.Need("http", "a request such as POST /reset_prefix_cache")) {
      process.evict = http->Text().value_or("");
      CheckRequest(*http, process.evict);
    }
    inner.Finish();
  }
  if (auto empty = map.Get("empty")) process.empty = ReadEmpty(*empty);
  ReadPlaces(&map, &process, &parts.texts);
  if (auto compatible = map.Get("compatible")) {
    process.compatible = compatible->Text().value_or("");
    if (const Status range = CheckVersionRange(process.compatible); !range.ok())
      compatible->Fail(ErrorOf(range).message, ErrorOf(range).hint);
  }
  if (auto at = map.Get("at")) process.at = ReadAttach(*at);
  // A tear-down's call to an agent takes five minutes.
  map.Duration("stop_grace", Nanoseconds(0), std::chrono::minutes(4), &process.stop_grace);
  if (auto kv = map.Get("kv")) {
    const Members members = kv->Members();
    process.kv = Texts(members);
    for (const auto& [field, one] : members) {
      if (std::count(kFormatFields.begin(), kFormatFields.end(), field) == 0)
        one.Fail(absl::StrCat("'", field, "' is no part of the KV format"),
                 absl::StrCat("known here: ", absl::StrJoin(kFormatFields, ", ")));
    }
  }
  map.Finish();
  if (!process.image.empty() && process.backend.empty()) process.backend = "docker";
  if (process.backend.empty()) process.backend = "process";
  if (map.ok()) CheckProcess(value, &map, process);
  return parts;
}

}  // namespace poolmark::spec
