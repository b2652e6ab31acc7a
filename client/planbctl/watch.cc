// SPDX-License-Identifier: Apache-2.0

// planbctl routes watch: prints the changes of a table as they come.

#include <cstdio>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/call.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/record.h"
#include "client/planbctl/session.h"
#include "client/route_watcher.h"
#include "client/table_client.h"
#include "planb/client/output.pb.h"

ABSL_FLAG(std::optional<uint64_t>, start, std::nullopt,
          "Show changes of generations above this one. Without: above the "
          "generation that lookups see now.");
ABSL_FLAG(uint64_t, count, 0,
          "End after this many generations; 0: when interrupted.");

namespace planb::client {
namespace {

// Prints the changes of a generation, one a line.
class Printer {
 public:
  // Nothing of this is printed.
  void Know(const GenerationChanges& bookmark) {
    complete_since_ = bookmark.complete_since.value_or(0);
  }

  void PrintAll(const GenerationChanges& changes) {
    generation_ = changes.generation;
    if (changes.reset) {
      complete_since_ = 0;
      Show(Line("reset"), "the whole table follows");
    }
    // In the order in which a replica applies them: next hops are added before
    // the routes that use them, and deleted after.
    for (const NextHop& next_hop : changes.next_hops) {
      output::Change line = Line("set_nexthop");
      *line.mutable_object() = ToProto(next_hop);
      Show(line, absl::StrCat(next_hop.id, " ", WordsText(line.object())));
    }
    for (const NextHopGroup& group : changes.groups) {
      output::Change line = Line("set_group");
      *line.mutable_group() = ToProto(group);
      Show(line, absl::StrCat(group.id, " ", WordsText(line.group())));
    }
    for (const Route& route : changes.routes) PrintRoute(route);
    PrintDeleted("delete_group", changes.deleted_groups);
    PrintDeleted("delete_nexthop", changes.deleted_next_hops);
    const uint64_t since = changes.complete_since.value_or(0);
    const bool other = std::exchange(complete_since_, since) != since;
    if (other || changes.bookmark) PrintCompleteSince(complete_since_);
    output::Change line = Line("complete");
    line.set_digest(absl::BytesToHexString(changes.digest));
    Show(line, line.digest());
  }

 private:
  output::Change Line(const char* change) const {
    output::Change line;
    line.set_generation(generation_);
    line.set_change(change);
    return line;
  }

  void PrintRoute(const Route& route) const {
    const bool withdrawn = route.next_hop == kNoRoute;
    output::Change line = Line(withdrawn ? "withdraw" : "announce");
    line.set_prefix(route.prefix.ToString());
    if (!withdrawn) line.set_next_hop(route.next_hop);
    Show(line, withdrawn ? line.prefix()
                         : absl::StrCat(line.prefix(), " ", route.next_hop));
  }

  void PrintCompleteSince(uint64_t since) const {
    output::Change line = Line("complete_since");
    if (since != 0) line.set_complete_since_unix_nanos(since);
    Show(line, TextOf(FieldsOf(line), "complete_since_time"));
  }

  void PrintDeleted(const char* change,
                    const std::vector<NextHopId>& ids) const {
    for (NextHopId id : ids) {
      output::Change line = Line(change);
      line.set_id(id);
      Show(line, absl::StrCat(id));
    }
  }

  void Show(const output::Change& line, absl::string_view what) const {
    Print(line,
          absl::StrFormat("%d %s %s\n", generation_, line.change(), what));
  }

  uint64_t generation_ = 0;
  uint64_t complete_since_ = 0;  // also while it is not known
};

ExitCode Run(const Arguments&) {
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const std::string table = absl::GetFlag(FLAGS_table);
  std::optional<uint64_t> start = absl::GetFlag(FLAGS_start);
  if (!start.has_value()) {
    const auto now = TableClient(*channel).GetTable(table, CallDeadline());
    if (!now.ok()) return Fail(now.status());
    start = now->visible_generation();
  }
  RouteWatcher watcher(*channel,
                       {.table = table,
                        .start_generation = *start,
                        .resync = !absl::GetFlag(FLAGS_start).has_value(),
                        .give_up_after = absl::GetFlag(FLAGS_timeout)});
  Printer printer;
  const uint64_t count = absl::GetFlag(FLAGS_count);
  uint64_t printed = 0;
  while (count == 0 || printed < count) {
    const uint64_t last = watcher.last_generation();
    const auto changes = watcher.Next();
    if (!changes.ok()) return Fail(changes.status());
    // A generation that changes nothing else comes as a bookmark, too.
    if (changes->bookmark && changes->generation == last) {
      printer.Know(*changes);
      continue;
    }
    printer.PrintAll(*changes);
    ++printed;
    // A reader needs each generation at once, and a signal would lose it.
    if (std::fflush(stdout) != 0) break;  // the end of planbctl says so
  }
  return ExitCode::kOk;
}

const RegisteredCommand kRoutesWatchCommand({
    .name = "routes watch",
    .summary = "print the changes of a table as they come",
    .description =
        "Prints every change of the table's routes, next hops and groups, "
        "one a line: the generation, the kind of change (announce, "
        "withdraw, set_nexthop, delete_nexthop, set_group, delete_group, "
        "complete_since), and its object; of complete_since, since when the "
        "table is complete (\"table complete\"), or \"never\". Generations "
        "are whole and in order; a line \"complete\" with the table's digest "
        "ends each.\n\nRuns until "
        "interrupted, or for --count generations. Continues after a "
        "broken connection, unless the server stays away for --timeout. "
        "If the server no longer has the next changes, a line \"reset\" and "
        "the whole table follow; with --start it exits with 3 instead.",
    .flags = {"start", "count"},
    .run = Run,
});

}  // namespace
}  // namespace planb::client
