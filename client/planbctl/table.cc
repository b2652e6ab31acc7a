// SPDX-License-Identifier: Apache-2.0

// planbctl table, snapshot export, status and health: whole tables, and the
// server.

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/utf8.h"
#include "client/call.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/output.h"
#include "client/planbctl/record.h"
#include "client/planbctl/session.h"
#include "client/table_client.h"
#include "client/whole_table.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "planb/client/output.pb.h"

ABSL_FLAG(std::string, service, "",
          "Full name of a gRPC service; empty means the server as a whole.");
ABSL_FLAG(bool, prefix_lengths, false,
          "Create a table that keeps the length of the prefix behind each "
          "answer: lookups that want it are as quick as others there, and all "
          "take more memory.");

namespace planb::client {

namespace {

// A name for a file in the directory of temporary files; the file is removed.
class TemporaryFile {
 public:
  TemporaryFile() {
    std::string path =
        std::filesystem::temp_directory_path() / "planbctl_XXXXXX";
    const int file = mkstemp(path.data());
    if (file >= 0) close(file);
    path_ = path;
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The state of a table, with what `status` says besides.
PrintedFields StateOf(const v1::Table& table,
                      const output::Status& status = {}) {
  return FieldsOf(status, FieldsOf(table));
}

ExitCode PrintState(const v1::Table& table) {
  const PrintedFields state = StateOf(table);
  Print(state, FormText(state));
  return ExitCode::kOk;
}

ExitCode PrintStates(const std::vector<v1::Table>& tables) {
  TextTable text({"table", "accepted", "visible", "persisted", "IPv6", "IPv4",
                  "next hops", "groups"});
  for (const v1::Table& table : tables) {
    if (WantedForm() != OutputForm::kTable) {
      PrintState(table);
      continue;
    }
    text.AddRow(
        {table.name(), absl::StrCat(table.accepted_generation()),
         absl::StrCat(table.visible_generation()),
         absl::StrCat(table.persisted_generation()),
         absl::StrCat(table.routes_v6()), absl::StrCat(table.routes_v4()),
         absl::StrCat(table.next_hops()), absl::StrCat(table.groups())});
  }
  absl::PrintF("%s", text.ToString());
  return ExitCode::kOk;
}

ExitCode List(const Arguments&) {
  return CallServer(
      [](const auto& channel) {
        return TableClient(channel).ListTables(CallDeadline());
      },
      PrintStates);
}

ExitCode Show(const Arguments& arguments) {
  return CallServer(
      [&](const auto& channel) {
        return TableClient(channel).GetTable(
            arguments.empty() ? absl::GetFlag(FLAGS_table) : arguments[0],
            CallDeadline());
      },
      PrintState);
}

ExitCode Create(const Arguments& arguments) {
  return CallServer(
      [&](const auto& channel) {
        v1::CreateTableRequest request;
        request.set_table(arguments[0]);
        request.set_prefix_lengths(absl::GetFlag(FLAGS_prefix_lengths));
        return TableClient(channel).CreateTable(request, CallDeadline());
      },
      [](const v1::Table& table) {
        Print(StateOf(table), absl::StrFormat("%s created, generation %d\n",
                                              Printable(table.name()),
                                              table.accepted_generation()));
        return ExitCode::kOk;
      });
}

ExitCode Delete(const Arguments& arguments) {
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const absl::Status status =
      TableClient(*channel).DeleteTable(arguments[0], CallDeadline());
  return status.ok() ? ExitCode::kOk : Fail(status);
}

const RegisteredCommand kTableListCommand({
    .name = "table list",
    .summary = "show all tables",
    .description =
        "Shows a line for each table: its name, its accepted, visible and "
        "persisted generations, and its numbers of IPv6 and IPv4 routes, "
        "next-hop objects and groups. Other forms of --output have all fields "
        "of \"table show\".",
    .run = List,
});

const RegisteredCommand kTableShowCommand({
    .name = "table show",
    .arguments = "[NAME]",
    .summary = "show the state of a table",
    .description =
        "Shows the state of the table NAME, or of --table: the output of "
        "\"status\" without the server's health.",
    .run = Show,
});

const RegisteredCommand kTableCreateCommand({
    .name = "table create",
    .arguments = "NAME",
    .summary = "create an empty table",
    .description =
        "Creates an empty table. NAME has 1 to 63 of the characters a-z, "
        "0-9 and \"-\". An existing table is an error.",
    .flags = {"prefix_lengths"},
    .run = Create,
});

const RegisteredCommand kTableDeleteCommand({
    .name = "table delete",
    .arguments = "NAME",
    .summary = "delete a table with all its routes",
    .description =
        "Deletes a table with its routes, next hops and groups. Later "
        "lookups in it fail. Prints nothing. The table \"default\" cannot "
        "be deleted.",
    .run = Delete,
});

ExitCode Complete(const Arguments& arguments) {
  const bool no = !arguments.empty();
  if (no && arguments[0] != "no") {
    return FailUsage(
        absl::StrCat("\"", Printable(arguments[0]), "\" is not \"no\""));
  }
  v1::UpdateRoutesRequest request;
  SetConditions(request);
  request.set_complete(!no);
  return CallServer(
      [&](const auto& channel) {
        return TableClient(channel).UpdateRoutes(request, CallDeadline());
      },
      [](const v1::UpdateRoutesResponse& response) {
        return PrintChange(response);
      });
}

const RegisteredCommand kTableCompleteCommand({
    .name = "table complete",
    .arguments = "[no]",
    .summary = "say whether a table has all that it is to have",
    .description =
        "Says that the table has all that it is to have, such as after the "
        "first load, or with \"no\" that it has not. Lookups may ask for that "
        "(\"lookup --await_complete\"), and \"table show\" and metrics show "
        "since when it is so. To repeat it changes nothing. planb-feed says "
        "it by itself.",
    .flags = ChangeFlags(),
    .run = Complete,
});

// Makes a table of the other server what it is here. The first error, of either
// server.
absl::Status CopyTable(const std::shared_ptr<grpc::Channel>& from,
                       const std::shared_ptr<grpc::Channel>& to,
                       const v1::Table& table) {
  v1::CreateTableRequest create;
  create.set_table(table.name());
  create.set_prefix_lengths(table.prefix_lengths());
  const auto created = TableClient(to).CreateTable(create, CallDeadline());
  if (!created.ok() && !absl::IsAlreadyExists(created.status())) {
    return created.status();
  }
  const TemporaryFile file;
  AtomicFile snapshot(file.path());
  const auto bytes =
      SnapshotTransfer(from).Export(table.name(), snapshot, CallDeadline());
  if (!bytes.ok()) return bytes.status();
  std::ifstream in(file.path(), std::ios::binary);
  v1::ImportSnapshotRequest first;
  first.set_table(table.name());
  const auto response = SnapshotTransfer(to).Import(first, in, CallDeadline());
  if (!response.ok()) return response.status();
  PrintChange(*response);
  return absl::OkStatus();
}

ExitCode Copy(const Arguments& arguments) {
  const auto from = ConnectToServer();
  if (!from.ok()) return Fail(from.status());
  const auto to = ConnectTo(arguments[0]);
  if (!to.ok()) return Fail(to.status());
  const auto tables = TableClient(*from).ListTables(CallDeadline());
  if (!tables.ok()) return Fail(tables.status());
  const std::vector<std::string> names(arguments.begin() + 1, arguments.end());
  for (const std::string& name : names) {
    if (std::none_of(tables->begin(), tables->end(),
                     [&](const v1::Table& t) { return t.name() == name; })) {
      return Fail(absl::NotFoundError(
          absl::StrCat("there is no table \"", name, "\"")));
    }
  }
  for (const v1::Table& table : *tables) {
    if (!names.empty() &&
        std::find(names.begin(), names.end(), table.name()) == names.end()) {
      continue;
    }
    if (WantedForm() == OutputForm::kTable) {
      absl::PrintF("%s: ", Printable(table.name()));
    }
    const absl::Status copied = CopyTable(*from, *to, table);
    if (!copied.ok()) return Fail(copied);
  }
  return ExitCode::kOk;
}

const RegisteredCommand kTableCopyCommand({
    .name = "table copy",
    .arguments = "SERVER [NAME...]",
    .summary = "copy tables to another server, or another store",
    .description =
        "Makes the tables NAME, or all, on SERVER what they are on --server: "
        "routes, next hops and groups. Creates those that SERVER does not "
        "have. Each becomes one new generation there; generations, request "
        "ids and writer epochs are not copied. Nothing changes on --server. "
        "To move to another store, stop the writers, copy, and start them "
        "with SERVER; \"table delete\" removes a table here. One command does "
        "not do both: a deletion cannot name a generation, and would take a "
        "change with it that came after the copy.",
    .run = Copy,
});

ExitCode Export(const Arguments& arguments) {
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  AtomicFile file(arguments[0]);
  if (!file.status().ok()) return FailUsage(file.status().message());
  const auto bytes = SnapshotTransfer(*channel).Export(
      absl::GetFlag(FLAGS_table), file, CallDeadline());
  if (!file.status().ok()) return FailUsage(file.status().message());
  if (!bytes.ok()) return Fail(bytes.status());
  if (arguments[0] == "-") return ExitCode::kOk;
  output::Snapshot line;
  line.set_file(arguments[0]);
  line.set_bytes(*bytes);
  Print(line, absl::StrFormat("%s: %d bytes\n", arguments[0], *bytes));
  return ExitCode::kOk;
}

const RegisteredCommand kSnapshotExportCommand({
    .name = "snapshot export",
    .arguments = "FILE",
    .summary = "write a table to a file",
    .description =
        "Writes the whole table, as lookups see it, to FILE: routes, next "
        "hops and groups, with a checksum. FILE is replaced only when the "
        "new file is complete and on the disk. Only its owner may read "
        "it. \"-\" writes to the standard output and prints nothing else "
        "there; the checksum lets an import detect a truncated file.",
    .run = Export,
});

using grpc::health::v1::HealthCheckResponse;

// The status of `service`, or with "" of the whole server.
absl::StatusOr<HealthCheckResponse> CheckHealth(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  return CallUnary(*grpc::health::v1::Health::NewStub(channel),
                   &grpc::health::v1::Health::Stub::Check, request,
                   CallDeadline());
}

std::string NameOf(const HealthCheckResponse& health) {
  return HealthCheckResponse::ServingStatus_Name(health.status());
}

ExitCode CodeOf(const HealthCheckResponse& health) {
  return health.status() == HealthCheckResponse::SERVING ? ExitCode::kOk
                                                         : ExitCode::kNegative;
}

// Adds the servers that share the store, if there are any.
absl::Status AddReplicas(const TableClient& client, const v1::Table& table,
                         output::Status& status) {
  const auto replicas = client.ListReplicas(CallDeadline());
  if (absl::IsFailedPrecondition(replicas.status()) ||
      absl::IsUnimplemented(replicas.status())) {
    return absl::OkStatus();
  }
  if (!replicas.ok()) return replicas.status();
  uint64_t newest = table.accepted_generation();
  for (const v1::Replica& replica : *replicas) {
    output::Replica& line = *status.add_replicas();
    line.set_name(replica.name());
    line.set_version(replica.version());
    line.set_self(replica.self());
    for (const auto& visible : replica.tables()) {
      if (visible.table() != table.name()) continue;
      line.set_visible_generation(visible.generation());
    }
    newest = std::max(newest, line.visible_generation());
    line.set_report_age_seconds(absl::ToDoubleSeconds(
        absl::Now() - absl::FromUnixNanos(static_cast<int64_t>(
                          replica.reported_unix_nanos()))));
  }
  for (output::Replica& line : *status.mutable_replicas()) {
    line.set_behind(newest - line.visible_generation());
    for (const output::Replica& other : status.replicas()) {
      if (other.visible_generation() <= line.visible_generation()) continue;
      line.set_behind_seconds(
          std::max(line.behind_seconds(), other.report_age_seconds()));
    }
  }
  return absl::OkStatus();
}

std::string ReplicasText(const output::Status& status) {
  TextTable text(
      {"replica", "visible", "behind", "for at least", "reported", "version"});
  for (const output::Replica& replica : status.replicas()) {
    text.AddRow({absl::StrCat(replica.name(), replica.self() ? " *" : ""),
                 absl::StrCat(replica.visible_generation()),
                 absl::StrCat(replica.behind()),
                 replica.has_behind_seconds()
                     ? absl::StrFormat("%.1f s", replica.behind_seconds())
                     : "",
                 absl::StrFormat("%.1f s ago", replica.report_age_seconds()),
                 replica.version()});
  }
  return status.replicas().empty() ? "" : text.ToString();
}

ExitCode RunStatus(const Arguments&) {
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const auto table = TableClient(*channel).GetTable(absl::GetFlag(FLAGS_table),
                                                    CallDeadline());
  if (!table.ok()) return Fail(table.status());
  const auto health = CheckHealth(*channel, "");
  if (!health.ok() && !absl::IsUnimplemented(health.status())) {
    return Fail(health.status());
  }
  output::Status status;
  status.set_server(ServerTarget());
  status.set_health(health.ok() ? NameOf(*health) : "UNIMPLEMENTED");
  const absl::Status shared =
      AddReplicas(TableClient(*channel), *table, status);
  if (!shared.ok()) return Fail(shared);
  const PrintedFields state = StateOf(*table, status);
  Print(state, absl::StrCat(FormText(state), ReplicasText(status)));
  return health.ok() ? CodeOf(*health) : ExitCode::kOk;
}

ExitCode RunHealth(const Arguments&) {
  const std::string service = absl::GetFlag(FLAGS_service);
  return CallServer(
      [&](const auto& channel) { return CheckHealth(channel, service); },
      [&](const HealthCheckResponse& health) {
        output::Health line;
        line.set_service(service);
        line.set_status(NameOf(health));
        Print(line, absl::StrCat(line.status(), "\n"));
        return CodeOf(health);
      });
}

const RegisteredCommand kStatusCommand({
    .name = "status",
    .summary = "show the state of the server and of a table",
    .description =
        "Shows a table's generations, sizes, kernel, digest and prefix "
        "lengths, and the server's health. If the server shares its store, "
        "also shows a line for each server that does: its name (\"*\" marks "
        "the one that answers), the generation that lookups see there, and "
        "how many generations and how long that is behind the newest: a server "
        "reports when something becomes visible, and the time counts from the "
        "first of the last reports with a newer generation. Exits with 1 if "
        "the server answers but is "
        "not serving.",
    .run = RunStatus,
});

const RegisteredCommand kHealthCommand({
    .name = "health",
    .summary = "ask whether the server serves",
    .description =
        "Calls the standard gRPC health service (grpc.health.v1) and "
        "prints SERVING or NOT_SERVING. Made for exec probes: exits with "
        "0 if the server is serving, with 1 if it is not, with 3 if it "
        "does not know the service, and with 4 if it cannot be reached. "
        "Use a --timeout below that of the probe.",
    .flags = {"service"},
    .run = RunHealth,
});

ExitCode Reload(const Arguments&) {
  return CallServer(
      [](const auto& channel) {
        return TableClient(channel).Reload(CallDeadline());
      },
      [](const v1::ReloadResponse& response) {
        Print(response,
              response.need_restart().empty()
                  ? "reloaded\n"
                  : absl::StrCat("reloaded; at the next start: --",
                                 Printable(absl::StrJoin(
                                     response.need_restart(), ", --")),
                                 "\n"));
        return ExitCode::kOk;
      });
}

const RegisteredCommand kReloadCommand({
    .name = "reload",
    .summary = "let the server read its configuration again",
    .description =
        "The server reads its certificates, keys, authorization policy and "
        "--log_level again, as SIGHUP makes it, and this says whether they can "
        "be used: what cannot changes nothing. Names the other flags of its "
        "file that have changed and take effect when it starts again.",
    .run = Reload,
});

}  // namespace
}  // namespace planb::client
