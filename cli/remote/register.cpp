// The command lines of everything in commands.h. One file, because CLI11 costs ten seconds of compiler time
// each.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/output/exit_code.h"
#include "cli/remote/commands.h"
#include "common/base/time_format.h"
#include "common/base/units.h"

namespace poolmark::cli {
namespace {

void AddOutput(CLI::App* command, std::string* output) {
  command->add_option("-o,--output", *output, "table, json or jsonl")
      ->check(CLI::IsMember({"table", "json", "jsonl"}))
      ->capture_default_str();
}

void AddRemote(CLI::App* command, RemoteOptions* remote) {
  command->add_option("--context", remote->context,
                      "Cluster to talk to (default: the current context, or POOLMARK_CONTEXT)");
  command->add_option("--controller", remote->controller,
                      "Another address of its controller (or POOLMARK_CONTROLLER)");
  AddOutput(command, &remote->output);
}

void AddDuration(CLI::App* command, const std::string& name, Nanoseconds* value,
                 const std::string& description) {
  command->add_option_function<std::string>(
      name,
      [name, value](const std::string& text) {
        auto parsed = ParseDuration(text);
        if (!parsed.ok()) throw CLI::ValidationError(name, std::string(parsed.status().message()));
        *value = *parsed;
      },
      description);
}

// KEY=VALUE, several times.
void AddPairs(CLI::App* command, const std::string& name, std::map<std::string, std::string>* pairs,
              const std::string& description) {
  command
      ->add_option_function<std::vector<std::string>>(
          name,
          [name, pairs](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) {
              size_t equals = text.find('=');
              if (equals == std::string::npos || equals == 0)
                throw CLI::ValidationError(name, "'" + text + "' is not KEY=VALUE");
              (*pairs)[text.substr(0, equals)] = text.substr(equals + 1);
            }
          },
          description)
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
}

std::shared_ptr<JobOptions> AddJobCommand(CLI::App& app, int& exit_code, const std::string& name,
                                          const std::string& description, int (*run)(const JobOptions&),
                                          CLI::App** out) {
  auto options = std::make_shared<JobOptions>();
  CLI::App* command = app.add_subcommand(name, description);
  command->add_option("JOB", options->job, "Id of the job, or the beginning of it")->required();
  AddRemote(command, &options->remote);
  command->callback([options, run, &exit_code] { exit_code = run(*options); });
  *out = command;
  return options;
}

}  // namespace

void AddLogin(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<LoginOptions>();
  CLI::App* login = app.add_subcommand(
      "login",
      "Become a user of a cluster, with a token from 'poolmark-controller token create --user NAME'");
  login->add_option("TOKEN", options->token, "The token, or - to read it from stdin")->required();
  login->add_option("--context", options->context, "Name for it here (default: the cluster's)");
  AddOutput(login, &options->output);
  login->callback([options, &exit_code] { exit_code = RunLogin(*options); });

  auto output = std::make_shared<std::string>("table");
  auto name = std::make_shared<std::string>();
  CLI::App* context = app.add_subcommand("context", "The clusters this user has logged in to");
  context->require_subcommand(1);
  CLI::App* list = context->add_subcommand("list", "All of them; * marks the current one");
  AddOutput(list, output.get());
  list->callback([output, &exit_code] { exit_code = RunContexts(*output); });
  CLI::App* use = context->add_subcommand("use", "Make one the current one");
  use->add_option("NAME", *name, "Context")->required();
  AddOutput(use, output.get());
  use->callback([name, output, &exit_code] { exit_code = RunUseContext(*name, *output); });
  CLI::App* forget = context->add_subcommand(
      "forget", "Remove one with its key; the certificate stays valid until it expires or is revoked");
  forget->add_option("NAME", *name, "Context")->required();
  AddOutput(forget, output.get());
  forget->callback([name, output, &exit_code] { exit_code = RunForgetContext(*name, *output); });
}

void AddSubmit(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<SubmitOptions>();
  CLI::App* submit =
      app.add_subcommand("submit", "Send a job with its files to the controller; prints the job's id");
  auto* file = submit->add_option("JOB_FILE", options->job_file, "job.yaml; paths in it are relative to it");
  submit->add_option("--from", options->from, "Results directory: submit its inputs again")->excludes(file);
  submit->add_flag("--dry-run", options->dry_run,
                   "Plan only: placement, refusals, estimated time; exit 2 when refused");
  submit->add_flag("--wait", options->wait, "Follow it to its end; the exit code is the job's");
  AddDuration(submit, "--timeout", &options->timeout,
              "Of --wait: give up after this time (exit 7); the job goes on");
  AddPairs(submit, "--set", &options->set,
           "Override a parameter of the stacks: host=64GiB for all, cand.host=64GiB for one");
  AddPairs(submit, "--label", &options->labels, "Label of the job, for your own use");
  submit->add_option("--name", options->name, "Name of the job (default: from the file's name)");
  submit->add_option("--request-id", options->request_id,
                     "The same id again gives the same job, not a second one (default: random)");
  submit->add_flag("--no-continue", options->no_continue,
                   "After an interruption end the job instead of going on with a new cycle");
  AddRemote(submit, &options->remote);
  submit->callback([options, &exit_code] { exit_code = RunSubmit(*options); });
}

void AddJobs(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<JobsOptions>();
  CLI::App* jobs = app.add_subcommand("jobs", "Jobs, newest first");
  jobs->add_option("--state", options->states, "Only these states")->delimiter(',');
  jobs->add_option("--limit", options->limit, "At most so many")->capture_default_str();
  AddRemote(jobs, &options->remote);
  jobs->callback([options, &exit_code] { exit_code = RunJobs(*options); });

  CLI::App* command = nullptr;
  AddJobCommand(app, exit_code, "status", "One job: state, reasons, where it is", RunStatus, &command);
  command->alias("show");
  auto watch =
      AddJobCommand(app, exit_code, "watch",
                    "Follow a job: events, steps, progress of the load; Ctrl-C detaches", RunWatch, &command);
  AddDuration(command, "--timeout", &watch->timeout, "Detach after this time (exit 7)");
  auto events = AddJobCommand(app, exit_code, "events", "A job's events", RunEvents, &command);
  command->add_option("--after", events->after, "Only those after this sequence number")
      ->capture_default_str();
  command->add_flag("-f,--follow", events->follow, "Go on until the job ends");
  auto wait = AddJobCommand(app, exit_code, "wait", "Wait for a job's end; the exit code is the job's",
                            RunWait, &command);
  AddDuration(command, "--timeout", &wait->timeout, "Give up after this time (exit 7)");
  auto cancel =
      AddJobCommand(app, exit_code, "cancel", "End a job; its tear-down still runs", RunCancel, &command);
  command->add_flag("--force", cancel->force, "Stop its processes without grace");
  AddJobCommand(app, exit_code, "delete", "Delete an ended job with its results", RunDelete, &command);
}

void AddLogs(CLI::App& app, int& exit_code) {
  CLI::App* command = nullptr;
  auto logs = AddJobCommand(app, exit_code, "logs", "What a job's processes print", RunLogs, &command);
  command->add_flag("-f,--follow", logs->follow, "Go on until the job ends");
  command->add_option("--machine", logs->machine, "Only of this machine");
  command->add_option("--process", logs->process, "Only of this process");
  command->add_option_function<std::string>(
      "--tail",
      [logs](const std::string& text) {
        auto bytes = ParseBytes(text);
        if (!bytes.ok()) throw CLI::ValidationError("--tail", std::string(bytes.status().message()));
        logs->tail_bytes = *bytes;
      },
      "Only the last bytes of each, as in 64KiB");
}

void AddFetch(CLI::App& app, int& exit_code) {
  CLI::App* command = nullptr;
  auto fetch = AddJobCommand(app, exit_code, "fetch",
                             "Fetch an ended job's results directory, whole and verified by SHA-256",
                             RunFetch, &command);
  command->add_option("DIR", fetch->directory, "Where to; it must not exist (default: the job's id)");
  command->add_flag("--resume", fetch->resume, "Go on with a fetch that was interrupted");
}

void AddMachines(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<MachineOptions>();
  CLI::App* machines = app.add_subcommand("machines", "Machines of the cluster");
  machines->alias("nodes");
  machines->add_flag("--all", options->all, "Also those whose certificate was withdrawn (machine revoke)");
  machines->add_flag(
      "--facts", options->facts,
      "With what its agent found: CPUs, memory, RDMA ports and clock; in json and jsonl everything");
  AddRemote(machines, &options->remote);
  machines->callback([options, &exit_code] { exit_code = RunMachines(*options); });

  CLI::App* machine = app.add_subcommand("machine", "Change the state of one machine");
  machine->require_subcommand(1);
  for (const auto& [action, description] :
       {std::pair{"drain", "Give it no new job; a running one ends first"},
        std::pair{"undrain", "Give it jobs again"},
        std::pair{"quarantine", "Keep it out, as after a tear-down that could not be proven"},
        std::pair{"clear", "Take it out of quarantine, after looking at it"},
        std::pair{"revoke", "Withdraw its certificate for good (admin); out of the list of machines"}}) {
    auto change = std::make_shared<MachineOptions>();
    change->action = action;
    CLI::App* command = machine->add_subcommand(action, description);
    command->add_option("MACHINE", change->machine, "Name of the machine")->required();
    command->add_option("--reason", change->reason, "Why; shown in lists");
    AddRemote(command, &change->remote);
    command->callback([change, &exit_code] { exit_code = RunMachineAction(*change); });
  }
}

void AddStacks(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RemoteOptions>();
  CLI::App* stacks = app.add_subcommand("stacks", "Stacks that the controller knows, with their verdict");
  AddRemote(stacks, options.get());
  auto validated = std::make_shared<bool>(false);
  stacks->add_flag(
      "--validated", *validated,
      "Configurations (stack digest, versions, vendor) that a valid, publishable job has validated");
  stacks->callback([options, validated, &exit_code] { exit_code = RunStacks(*options, *validated); });
}

void AddDoctor(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RemoteOptions>();
  CLI::App* doctor = app.add_subcommand(
      "doctor",
      "What stands between this user and the controller: key, certificate, connection, clock, version");
  AddRemote(doctor, options.get());
  doctor->callback([options, &exit_code] { exit_code = RunDoctor(*options); });

  auto version_options = std::make_shared<RemoteOptions>();
  auto client_only = std::make_shared<bool>(false);
  CLI::App* version = app.add_subcommand("version", "Versions of this program and of the controller");
  version->add_flag("--client", *client_only, "Of this program only; asks nobody");
  AddRemote(version, version_options.get());
  version->callback(
      [version_options, client_only, &exit_code] { exit_code = RunVersion(*version_options, *client_only); });
}

}  // namespace poolmark::cli
