// SPDX-License-Identifier: Apache-2.0

#include "server/table/table_metrics.h"

#include <cstdint>

#include "server/base/metric_families.h"

namespace planb::server {
namespace {

using prometheus::MetricFamily;

// A series that each table has. Consecutive ones with the same name are one
// family.
struct Series {
  const char* name;
  const char* help;
  // A label besides the table's name; nullptr if there is none.
  const char* label;
  const char* label_value;
  double (*value)(const TableState&);
};

// The value of a member.
template <auto member>
double The(const TableState& state) {
  return MetricValue(state.*member);
}

double LastRebuild(const TableState& state) {
  return state.builds.last_at == absl::InfinitePast()
             ? 0
             : absl::ToDoubleSeconds(state.builds.last_at - absl::UnixEpoch());
}

constexpr char kRoutes[] = "Routes in the RIB.";
constexpr char kIntervals[] = "Elementary intervals of the visible FIB.";
constexpr char kGeneration[] =
    "Generation of the table: accepted, visible to lookups, and synced to the "
    "disk (0 without a store that syncs each update).";

using S = TableState;

constexpr Series kSeries[] = {
    {"planb_routes", kRoutes, "family", "ipv4", The<&S::routes_v4>},
    {"planb_routes", kRoutes, "family", "ipv6", The<&S::routes_v6>},
    {"planb_intervals", kIntervals, "family", "ipv4", The<&S::intervals_v4>},
    {"planb_intervals", kIntervals, "family", "ipv6", The<&S::intervals_v6>},
    {"planb_generation", kGeneration, "stage", "accepted", The<&S::accepted>},
    {"planb_generation", kGeneration, "stage", "visible", The<&S::visible>},
    {"planb_generation", kGeneration, "stage", "persisted", The<&S::persisted>},
    {"planb_fib_bytes", "Bytes held by the visible FIB.", nullptr, nullptr,
     The<&S::fib_bytes>},
    {"planb_retired_fib_bytes",
     "Bytes held by older FIBs that a lookup still reads.", nullptr, nullptr,
     The<&S::retired_fib_bytes>},
    {"planb_oldest_fib_age_seconds",
     "Seconds since the oldest FIB that a lookup still reads was replaced; 0 "
     "if all read the visible one.",
     nullptr, nullptr,
     [](const S& s) { return absl::ToDoubleSeconds(s.oldest_fib_age); }},
    {"planb_rib_bytes", "Bytes held by the RIB.", nullptr, nullptr,
     The<&S::rib_bytes>},
    {"planb_history_bytes", "Bytes of changes kept for watchers.", nullptr,
     nullptr, The<&S::history_bytes>},
    {"planb_memory_bound_bytes",
     "Bytes the table may come to, as admission counts them.", nullptr, nullptr,
     The<&S::memory_bound>},
    {"planb_next_hops", "Next-hop objects.", nullptr, nullptr,
     The<&S::next_hops>},
    {"planb_next_hop_groups", "Next-hop groups.", nullptr, nullptr,
     The<&S::groups>},
    {"planb_last_rebuild_timestamp_seconds",
     "When the last rebuild succeeded, in seconds since the Unix epoch; 0 "
     "before the first.",
     nullptr, nullptr, LastRebuild},
    {"planb_rebuild_failing",
     "1 while the last rebuild has failed and an older generation serves.",
     nullptr, nullptr,
     [](const S& s) { return s.builds.last_error.empty() ? 0. : 1.; }},
    {"planb_store_unreadable",
     "1 if what a shared store has of the table cannot be read: the table "
     "keeps "
     "what it has and refuses updates.",
     nullptr, nullptr,
     [](const S& s) { return s.store_error.empty() ? 0. : 1.; }},
};

}  // namespace

std::vector<MetricFamily> TableMetrics::Collect() const {
  std::vector<TableState> states;
  for (const TableRef& table : tables_.All()) states.push_back(table->state());
  std::vector<MetricFamily> families;
  for (const Series& series : kSeries) {
    if (families.empty() || families.back().name != series.name) {
      families.push_back(GaugeFamily(series.name, series.help, {}));
    }
    for (const TableState& state : states) {
      MetricLabels labels = {{"table", state.name}};
      if (series.label != nullptr) {
        labels.push_back({series.label, series.label_value});
      }
      families.back().metric.push_back(
          GaugeOf(series.value(state), std::move(labels)));
    }
  }
  uint64_t waiting = 0;
  uint64_t limit = 0;
  for (const TableState& state : states) {
    waiting += state.accepted - state.visible;
    limit = state.memory_limit;  // the same for all tables
  }
  families.push_back(GaugeFamily("planb_update_queue_batches",
                                 "Batches of updates that are accepted and "
                                 "not yet visible, in all tables.",
                                 {GaugeOf(MetricValue(waiting))}));
  families.push_back(GaugeFamily("planb_tables", "Routing tables.",
                                 {GaugeOf(MetricValue(states.size()))}));
  families.push_back(
      GaugeFamily("planb_memory_limit_bytes",
                  "Bytes that admission lets all tables come to.",
                  {GaugeOf(MetricValue(limit))}));
  families.push_back(
      GaugeFamily("planb_store_lag_seconds",
                  "Seconds since a shared store was last heard; 0 for a store "
                  "of this server alone.",
                  {GaugeOf(absl::ToDoubleSeconds(tables_.store_lag()))}));
  families.push_back(GaugeFamily(
      "planb_store_tables_missing",
      "Tables of a shared store, or of the server that is followed, that this "
      "server does not have, because they cannot be read or followed.",
      {GaugeOf(MetricValue(tables_.missing()))}));
  families.push_back(GaugeFamily("planb_kernel_info",
                                 "The search kernel in use; always 1.",
                                 {GaugeOf(1, {{"kernel", kernel_}})}));
  return families;
}

}  // namespace planb::server
