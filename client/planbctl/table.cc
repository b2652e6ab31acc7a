// SPDX-License-Identifier: Apache-2.0

// planbctl table: the tables of the server.

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/output.h"
#include "client/planbctl/session.h"
#include "client/table_client.h"

namespace planb::client {
namespace {

ExitCode List(const Arguments& arguments) {
  if (!arguments.empty()) return FailUsage("table list takes no arguments");
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const auto tables = TableClient(*channel).ListTables(CallDeadline());
  if (!tables.ok()) return Fail(tables.status());
  TextTable text({"table", "accepted", "visible", "persisted", "IPv6", "IPv4",
                  "next hops", "groups"});
  for (const v1::Table& table : *tables) {
    if (absl::GetFlag(FLAGS_json)) {
      PrintTable(Describe(table));
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

ExitCode Show(const Arguments& arguments) {
  if (arguments.size() > 1) return FailUsage("table show takes one name");
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const auto table = TableClient(*channel).GetTable(
      arguments.empty() ? absl::GetFlag(FLAGS_table) : arguments[0],
      CallDeadline());
  if (!table.ok()) return Fail(table.status());
  PrintTable(Describe(*table));
  return ExitCode::kOk;
}

ExitCode Create(const Arguments& arguments) {
  if (arguments.size() != 1) return FailUsage("table create takes one name");
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const auto table =
      TableClient(*channel).CreateTable(arguments[0], CallDeadline());
  if (!table.ok()) return Fail(table.status());
  if (absl::GetFlag(FLAGS_json)) {
    PrintTable(Describe(*table));
  } else {
    absl::PrintF("%s created, generation %d\n", table->name(),
                 table->accepted_generation());
  }
  return ExitCode::kOk;
}

ExitCode Delete(const Arguments& arguments) {
  if (arguments.size() != 1) return FailUsage("table delete takes one name");
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const absl::Status status =
      TableClient(*channel).DeleteTable(arguments[0], CallDeadline());
  return status.ok() ? ExitCode::kOk : Fail(status);
}

}  // namespace

const Command kTableListCommand = {
    .name = "table list",
    .arguments = "",
    .summary = "show all tables",
    .description =
        "Shows a line for each table: its name, its accepted, visible and "
        "persisted generations, and how many IPv6 and IPv4 routes, next-hop "
        "objects and groups it has. With --json, all that \"table show\" says.",
    .flags = {},
    .run = List,
};

const Command kTableShowCommand = {
    .name = "table show",
    .arguments = "[NAME]",
    .summary = "show the state of a table",
    .description =
        "Shows the state of the table NAME, or of --table: what \"status\" "
        "shows, without asking for the server's health.",
    .flags = {},
    .run = Show,
};

const Command kTableCreateCommand = {
    .name = "table create",
    .arguments = "NAME",
    .summary = "create an empty table",
    .description =
        "Creates an empty table. NAME is 1 to 63 of the characters a-z, 0-9 "
        "and \"-\". A table that exists already is an error.",
    .flags = {},
    .run = Create,
};

const Command kTableDeleteCommand = {
    .name = "table delete",
    .arguments = "NAME",
    .summary = "delete a table with all its routes",
    .description =
        "Deletes a table with its routes, next hops and groups. Lookups in it "
        "fail from then on. Prints nothing. The table \"default\" cannot be "
        "deleted.",
    .flags = {},
    .run = Delete,
};

}  // namespace planb::client
