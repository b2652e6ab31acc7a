// SPDX-License-Identifier: Apache-2.0

#include "client/planbctl/output.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/flags/flag.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/planbctl/flags.h"

namespace planb::client {

std::string JsonLine(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  // Messages of output.proto always convert.
  ABSL_RAW_CHECK(
      google::protobuf::util::MessageToJsonString(message, &json, options).ok(),
      "a message of output.proto has no JSON form");
  json += '\n';
  return json;
}

void PrintField(absl::string_view name, absl::string_view value) {
  absl::PrintF("%-14s %s\n", name, value);
}

void TextTable::AddRow(std::vector<std::string> cells) {
  for (std::string& cell : cells) {
    if (cell.empty()) cell.push_back('-');
  }
  rows_.push_back(std::move(cells));
}

std::string TextTable::ToString() const {
  if (rows_.size() == 1) return "";
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      text += row[i];
      if (!last) text.append(widths[i] - row[i].size() + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

// JSON and text show the same message, so that they have the same content.

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
             absl::StrFormat("%.0f bytes FIB, %.0f retired, %.0f RIB",
                             status.fib_bytes(), status.retired_fib_bytes(),
                             status.rib_bytes()));
  PrintField("memory bound", absl::StrFormat("%.0f bytes, at most %.0f",
                                             status.memory_bound_bytes(),
                                             status.memory_limit_bytes()));
  PrintField("history", absl::StrFormat("%.0f bytes, from generation %.0f",
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

// Omits the fields that an object does not have.

output::NextHop Describe(const NextHop& next_hop) {
  output::NextHop described;
  described.set_id(next_hop.id);
  if (next_hop.gateway.has_value()) {
    described.set_gateway(next_hop.gateway->ToString());
  }
  described.set_interface(next_hop.interface);
  described.set_weight(next_hop.weight);
  described.set_label(next_hop.label);
  return described;
}

output::Group Describe(const NextHopGroup& group) {
  output::Group described;
  described.set_id(group.id);
  for (const NextHopGroup::Member& member : group.members) {
    output::Group::Member* to = described.add_members();
    to->set_next_hop(member.next_hop);
    to->set_weight(member.weight);
  }
  described.set_label(group.label);
  return described;
}

std::string MembersText(const NextHopGroup& group) {
  return absl::StrJoin(group.members, " ",
                       [](std::string* to, const NextHopGroup::Member& member) {
                         absl::StrAppend(to, member.next_hop);
                         if (member.weight != 1)
                           absl::StrAppend(to, "*", member.weight);
                       });
}

std::string TextOf(const NextHop& next_hop) {
  std::vector<std::string> parts;
  if (next_hop.gateway.has_value()) {
    parts.push_back(absl::StrCat("via ", next_hop.gateway->ToString()));
  }
  if (!next_hop.interface.empty()) {
    parts.push_back(absl::StrCat("dev ", next_hop.interface));
  }
  if (next_hop.weight != 1) {
    parts.push_back(absl::StrCat("weight ", next_hop.weight));
  }
  if (!next_hop.label.empty()) {
    parts.push_back(absl::StrCat("label ", next_hop.label));
  }
  return absl::StrJoin(parts, " ");
}

std::string TextOf(const NextHopGroup& group) {
  return group.label.empty()
             ? MembersText(group)
             : absl::StrCat(MembersText(group), " label ", group.label);
}

}  // namespace planb::client
