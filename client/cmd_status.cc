// planbctl status: what the server and one of its tables are doing.

#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/command.h"
#include "client/flags.h"
#include "client/health.h"
#include "client/output.h"
#include "client/session.h"
#include "client/table_client.h"
#include "planb/client/output.pb.h"

namespace planb::client {
namespace {

using grpc::health::v1::HealthCheckResponse;

output::Status Describe(const v1::Table& table) {
  output::Status status;
  const auto number = [](uint64_t value) { return static_cast<double>(value); };
  status.set_table(table.name());
  status.set_accepted_generation(number(table.accepted_generation()));
  status.set_visible_generation(number(table.visible_generation()));
  status.set_persisted_generation(number(table.persisted_generation()));
  status.set_routes_v6(number(table.routes_v6()));
  status.set_routes_v4(number(table.routes_v4()));
  status.set_max_routes(number(table.max_routes()));
  status.set_next_hops(number(table.next_hops()));
  status.set_intervals_v6(number(table.intervals_v6()));
  status.set_intervals_v4(number(table.intervals_v4()));
  status.set_fib_bytes(number(table.fib_bytes()));
  status.set_retired_fib_bytes(number(table.retired_fib_bytes()));
  status.set_rib_bytes(number(table.rib_bytes()));
  status.set_kernel(table.kernel());
  *status.mutable_available_kernels() = table.available_kernels();
  status.set_digest(absl::BytesToHexString(table.digest()));
  status.set_store(table.store());
  status.set_last_build_seconds(number(table.last_build_nanos()) * 1e-9);
  if (table.last_build_unix_nanos() != 0) {
    status.set_last_build_time(absl::FormatTime(
        absl::FromUnixNanos(
            static_cast<int64_t>(table.last_build_unix_nanos())),
        absl::UTCTimeZone()));
  }
  status.set_last_build_error(table.last_build_error());
  for (const v1::LengthCount& count : table.length_counts()) {
    auto& lengths = count.v6() ? *status.mutable_lengths_v6()
                               : *status.mutable_lengths_v4();
    lengths[count.length()] = number(count.routes());
  }
  return status;
}

std::string Lengths(
    const google::protobuf::RepeatedPtrField<v1::LengthCount>& counts,
    bool v6) {
  std::vector<std::string> parts;
  for (const v1::LengthCount& count : counts) {
    if (count.v6() != v6) continue;
    parts.push_back(absl::StrCat("/", count.length(), ": ", count.routes()));
  }
  return parts.empty() ? "none" : absl::StrJoin(parts, ", ");
}

void PrintText(const output::Status& status, const v1::Table& table) {
  const auto row = [](absl::string_view name, absl::string_view value) {
    absl::PrintF("%-14s %s\n", name, value);
  };
  row("server", absl::StrCat(status.server(), " (", status.health(), ")"));
  row("table", table.name());
  row("generation", absl::StrCat(table.accepted_generation(), " accepted, ",
                                 table.visible_generation(), " visible, ",
                                 table.persisted_generation(), " persisted"));
  row("store", table.store());
  row("routes", absl::StrCat(table.routes_v6(), " IPv6, ", table.routes_v4(),
                             " IPv4, at most ", table.max_routes()));
  row("next hops", absl::StrCat(table.next_hops(), " described"));
  row("intervals", absl::StrCat(table.intervals_v6(), " IPv6, ",
                                table.intervals_v4(), " IPv4"));
  row("memory", absl::StrCat(table.fib_bytes(), " octets FIB, ",
                             table.retired_fib_bytes(), " retired, ",
                             table.rib_bytes(), " RIB"));
  row("kernel",
      absl::StrCat(table.kernel(), " (of ",
                   absl::StrJoin(table.available_kernels(), ", "), ")"));
  row("last build",
      status.has_last_build_time()
          ? absl::StrCat(absl::FormatDuration(absl::Nanoseconds(
                             static_cast<int64_t>(table.last_build_nanos()))),
                         ", ", status.last_build_time())
          : "never");
  if (!table.last_build_error().empty()) {
    row("BUILD FAILED", table.last_build_error());
  }
  row("digest", status.digest());
  row("IPv6 lengths", Lengths(table.length_counts(), true));
  row("IPv4 lengths", Lengths(table.length_counts(), false));
}

ExitCode Run(const Arguments& arguments) {
  if (!arguments.empty()) return FailUsage("status takes no arguments");
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const auto table = TableClient(*channel).GetTable(absl::GetFlag(FLAGS_table),
                                                    CallDeadline());
  if (!table.ok()) return Fail(table.status());
  const auto health = CheckHealth(*channel, "", CallDeadline());
  if (!health.ok() && !absl::IsUnimplemented(health.status())) {
    return Fail(health.status());
  }
  output::Status status = Describe(*table);
  status.set_server(ServerTarget());
  status.set_health(health.ok()
                        ? HealthCheckResponse::ServingStatus_Name(*health)
                        : "UNIMPLEMENTED");
  if (absl::GetFlag(FLAGS_json)) {
    absl::PrintF("%s", JsonLine(status));
  } else {
    PrintText(status, *table);
  }
  const bool serves = !health.ok() || *health == HealthCheckResponse::SERVING;
  return serves ? ExitCode::kOk : ExitCode::kNegative;
}

}  // namespace

const Command kStatusCommand = {
    .name = "status",
    .arguments = "",
    .summary = "show the state of the server and of a table",
    .description =
        "Shows a table's generations, sizes, kernel, digest and prefix "
        "lengths, and the server's health. Exits with 1 if the server "
        "answers but does not serve.",
    .flags = {},
    .run = Run,
};

}  // namespace planb::client
