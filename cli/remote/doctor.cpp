// doctor and version: what stands between this user and the controller.
#include <sys/stat.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/output/exit_code.h"
#include "cli/remote/commands.h"
#include "common/base/files.h"
#include "common/base/time_format.h"
#include "common/base/version.h"
#include "common/rpc/address.h"
#include "common/rpc/enroll_client.h"
#include "common/rpc/renewal.h"

namespace poolmark::cli {
namespace {

struct Finding {
  std::string check;
  bool good = false;
  std::string observed;
  std::string hint;
};

// M9: above 100 ms fails.
constexpr double kClockLimitSeconds = 0.1;

Finding CheckKey(const rpc::CliContext& context) {
  struct stat status {};
  const std::string path = JoinPath(context.identity_dir, "current/key.pem");
  if (stat(path.c_str(), &status) != 0)
    return {"private key", false, absl::StrCat(path, " is not there"), "log in again"};
  if ((status.st_mode & 077) != 0)
    return {"private key", false, absl::StrCat("others can read ", path), absl::StrCat("chmod 600 ", path)};
  return {"private key", true, absl::StrCat(path, ", only its owner reads it"), ""};
}

Finding CheckCertificate(const rpc::CliContext& context) {
  auto identity = rpc::LoadIdentity(context.identity_dir, RealClock());
  if (!identity.ok())
    return {"certificate", false, std::string(identity.status().message()), "poolmark login TOKEN"};
  auto info = rpc::ParseCertificate(identity->certificate_pem);
  if (!info.ok()) return {"certificate", false, std::string(info.status().message()), "poolmark login TOKEN"};
  return {"certificate", true,
          absl::StrCat(info->uris.empty() ? info->common_name : info->uris.front(), " until ",
                       IsoUtc(info->not_after), ", renewed from ", IsoUtc(rpc::RenewalTime(*info))),
          ""};
}

// Connects without a certificate of ours: does the party there show the CA of this context?
Finding CheckServer(const rpc::CliContext& context) {
  auto ca = ReadFile(JoinPath(context.identity_dir, "current/ca.pem"), 1u << 20);
  auto info = ca.ok() ? rpc::ParseCertificate(*ca) : Result<rpc::CertificateInfo>(ca.status());
  if (!info.ok()) return {"server", false, std::string(info.status().message()), "log in again"};
  auto found = rpc::FetchPinnedCa(context.controller, info->sha256);
  if (!found.ok())
    return {"server", false, std::string(found.status().message()), "is the controller running there?"};
  return {"server", true,
          absl::StrCat(context.controller, " answers with TLS 1.3 and a certificate of this cluster"), ""};
}

void CheckApi(const RemoteOptions& options, std::vector<Finding>* findings) {
  auto session = Session::Open(options);
  if (!session.ok()) {
    findings->push_back({"api", false, std::string(session.status().message()), ""});
    return;
  }
  const Nanoseconds before = RealClock().Wall();
  auto reply = rpc::Call((*session)->stub(), &v1::ControllerService::Stub::GetVersion,
                         v1::GetVersionRequest(), rpc::Deadline("ControllerService/GetVersion"));
  const Nanoseconds after = RealClock().Wall();
  if (!reply.ok()) {
    Error error = ErrorOf(reply.status());
    findings->push_back({"api", false, error.message, error.hint});
    return;
  }
  findings->push_back({"api", true,
                       absl::StrCat("known there as ", reply->caller_name(), " (", reply->caller_role(),
                                    ") of ", reply->cluster_id()),
                       ""});
  const bool same = reply->version() == Version();
  findings->push_back({"version", true,
                       absl::StrCat("controller ", reply->version(), ", this program ", Version()),
                       same ? "" : "they differ; upgrade the controller first"});
  const double half = std::chrono::duration<double>(after - before).count() / 2;
  const double offset = std::chrono::duration<double>(Nanoseconds(reply->wall_ns()) - before).count() - half;
  char text[96];
  std::snprintf(text, sizeof text, "controller is %+.1f ms from here, known to %.1f ms", offset * 1e3,
                half * 1e3);
  const bool agree = std::fabs(offset) - half <= kClockLimitSeconds;
  findings->push_back({"clock", agree, text, agree ? "" : "set the clocks by NTP"});
}

}  // namespace

int RunVersion(const RemoteOptions& options, bool client_only) {
  const Format format = options.format();
  Json json = {{"client", Version()}};
  std::string text = absl::StrCat("client      ", Version(), "\n");
  int code = kExitOk;
  if (!client_only) {
    auto session = Session::Open(options);
    Status status = session.status();
    if (session.ok()) {
      auto reply = rpc::Call((*session)->stub(), &v1::ControllerService::Stub::GetVersion,
                             v1::GetVersionRequest(), rpc::Deadline("ControllerService/GetVersion"));
      status = reply.ok() ? absl::OkStatus() : WithAdvice(reply.status(), (*session)->context());
      if (reply.ok()) {
        Json versions = Json::array();
        for (const auto& version : reply->api_versions()) versions.push_back(version);
        json["controller"] = {{"version", reply->version()},
                              {"cluster", reply->cluster_id()},
                              {"api_versions", versions},
                              {"as", reply->caller_name()},
                              {"role", reply->caller_role()}};
        absl::StrAppend(&text, "controller  ", Printable(reply->version()), "  ",
                        Printable(reply->cluster_id()), " at ", (*session)->context().controller, "\n");
      }
    }
    if (!status.ok()) {
      // Without a login there is no controller to ask; that is no failure of `version`.
      if (!HasNoLogin(options)) code = Fail(status, format);
      json["controller"] = nullptr;
    }
  }
  WriteOut(format == Format::kTable ? text : JsonText(json, format));
  return code;
}

int RunDoctor(const RemoteOptions& options) {
  const Format format = options.format();
  std::vector<Finding> findings;
  const auto context = ContextOf(options);
  if (!context.ok()) {
    Error error = ErrorOf(context.status());
    findings.push_back({"context", false, error.message, error.hint});
  } else {
    findings.push_back(
        {"context", true, absl::StrCat(context->name, " of ", rpc::ContextStore::DefaultDir()), ""});
    findings.push_back(CheckKey(*context));
    findings.push_back(CheckCertificate(*context));
    findings.push_back(CheckServer(*context));
    CheckApi(options, &findings);
  }
  Table table({"CHECK", "RESULT", "OBSERVED", "WHAT TO DO"});
  std::vector<Json> rows;
  bool good = true;
  for (const Finding& finding : findings) {
    good = good && finding.good;
    table.Add({{finding.check},
               {finding.good ? "ok" : "FAIL", finding.good ? Colour::kGreen : Colour::kRed},
               {finding.observed},
               {finding.hint}});
    rows.push_back({{"check", finding.check},
                    {"ok", finding.good},
                    {"observed", finding.observed},
                    {"hint", finding.hint}});
  }
  WriteOut(format == Format::kTable ? table.Text() : JsonRows(rows, format));
  return good ? kExitOk : kExitFailed;
}

}  // namespace poolmark::cli
