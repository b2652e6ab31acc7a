// JSON and text show the same message, so that neither can say less.

#include "client/planbctl/table_output.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/output.h"
#include "client/planbctl/text_output.h"

namespace planb::client {
namespace {

using Counts = google::protobuf::Map<uint32_t, double>;

std::string Lengths(const Counts& counts) {
  std::vector<std::pair<uint32_t, double>> sorted(counts.begin(), counts.end());
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty()) return "none";
  return absl::StrJoin(sorted, ", ", [](std::string* to, const auto& count) {
    absl::StrAppendFormat(to, "/%d: %.0f", count.first, count.second);
  });
}

std::string LastBuild(const output::Status& status) {
  if (!status.has_last_build_time()) return "never";
  return absl::StrCat(
      absl::FormatDuration(absl::Seconds(status.last_build_seconds())), ", ",
      status.last_build_time());
}

void PrintText(const output::Status& status) {
  PrintField("table", status.table());
  PrintField(
      "generation",
      absl::StrFormat("%.0f accepted, %.0f visible, %.0f persisted",
                      status.accepted_generation(), status.visible_generation(),
                      status.persisted_generation()));
  PrintField("store",
             status.store_path().empty()
                 ? status.store()
                 : absl::StrCat(status.store(), ", ", status.store_path()));
  PrintField("routes", absl::StrFormat("%.0f IPv6, %.0f IPv4, at most %.0f",
                                       status.routes_v6(), status.routes_v4(),
                                       status.max_routes()));
  PrintField("next hops", absl::StrFormat("%.0f described, %.0f groups",
                                          status.next_hops(), status.groups()));
  PrintField("writer epoch", absl::StrFormat("%.0f", status.writer_epoch()));
  PrintField("intervals",
             absl::StrFormat("%.0f IPv6, %.0f IPv4", status.intervals_v6(),
                             status.intervals_v4()));
  PrintField("memory",
             absl::StrFormat("%.0f octets FIB, %.0f retired, %.0f RIB",
                             status.fib_bytes(), status.retired_fib_bytes(),
                             status.rib_bytes()));
  PrintField("memory bound", absl::StrFormat("%.0f octets, at most %.0f",
                                             status.memory_bound_bytes(),
                                             status.memory_limit_bytes()));
  PrintField("history", absl::StrFormat("%.0f octets, from generation %.0f",
                                        status.history_bytes(),
                                        status.oldest_watch_generation()));
  PrintField(
      "kernel",
      absl::StrCat(status.kernel(), " (of ",
                   absl::StrJoin(status.available_kernels(), ", "), ")"));
  PrintField("last build", LastBuild(status));
  PrintField("builds",
             absl::StrFormat("%.0f incremental, %.0f full, %.0f failed",
                             status.incremental_builds(), status.full_builds(),
                             status.failed_builds()));
  if (!status.last_build_error().empty()) {
    PrintField("BUILD FAILED", status.last_build_error());
  }
  PrintField("digest", status.digest());
  PrintField("IPv6 lengths", Lengths(status.lengths_v6()));
  PrintField("IPv4 lengths", Lengths(status.lengths_v4()));
}

}  // namespace

output::Status Describe(const v1::Table& table) {
  output::Status status;
  status.set_table(table.name());
  status.set_accepted_generation(Number(table.accepted_generation()));
  status.set_visible_generation(Number(table.visible_generation()));
  status.set_persisted_generation(Number(table.persisted_generation()));
  status.set_routes_v6(Number(table.routes_v6()));
  status.set_routes_v4(Number(table.routes_v4()));
  status.set_max_routes(Number(table.max_routes()));
  status.set_next_hops(Number(table.next_hops()));
  status.set_intervals_v6(Number(table.intervals_v6()));
  status.set_intervals_v4(Number(table.intervals_v4()));
  status.set_fib_bytes(Number(table.fib_bytes()));
  status.set_retired_fib_bytes(Number(table.retired_fib_bytes()));
  status.set_rib_bytes(Number(table.rib_bytes()));
  status.set_kernel(table.kernel());
  *status.mutable_available_kernels() = table.available_kernels();
  status.set_digest(absl::BytesToHexString(table.digest()));
  status.set_store(table.store());
  status.set_last_build_seconds(Number(table.last_build_nanos()) * 1e-9);
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
    lengths[count.length()] = Number(count.routes());
  }
  status.set_groups(Number(table.groups()));
  status.set_writer_epoch(Number(table.writer_epoch()));
  status.set_store_path(table.store_path());
  status.set_oldest_watch_generation(Number(table.oldest_watch_generation()));
  status.set_history_bytes(Number(table.history_bytes()));
  status.set_incremental_builds(Number(table.incremental_builds()));
  status.set_full_builds(Number(table.full_builds()));
  status.set_failed_builds(Number(table.failed_builds()));
  status.set_memory_bound_bytes(Number(table.memory_bound_bytes()));
  status.set_memory_limit_bytes(Number(table.memory_limit_bytes()));
  return status;
}

void PrintTable(const output::Status& status) {
  if (absl::GetFlag(FLAGS_json)) {
    absl::PrintF("%s", JsonLine(status));
  } else {
    PrintText(status);
  }
}

}  // namespace planb::client
