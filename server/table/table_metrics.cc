// SPDX-License-Identifier: Apache-2.0

#include "server/table/table_metrics.h"

#include <cstdint>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "planb/v1/types.pb.h"
#include "server/base/metric_families.h"

namespace planb::server {
namespace {

using prometheus::MetricFamily;

// A series that each table has. Consecutive ones with the same name are one
// family.
struct Series {
  const char* name;
  const char* help;
  double (*value)(const Table& table, const v1::Table& state);
  // A label besides the table's name.
  const char* label = nullptr;
  const char* label_value = nullptr;
};

// The value of a field.
template <auto getter>
double The(const Table&, const v1::Table& state) {
  return MetricValue((state.*getter)());
}

constexpr char kRoutes[] = "Routes in the RIB.";
constexpr char kIntervals[] =
    "Elementary intervals of the visible FIB, neighbours with one next hop "
    "merged.";
constexpr char kOverLimit[] =
    "1 while the table has more than --max_routes or --max_next_hops allow, as "
    "after one was lowered: it is served and takes no more of these, and a "
    "follower with the same flags refuses it.";
constexpr char kGeneration[] =
    "Generation that is accepted, that lookups see, and that is synced to the "
    "disk (0 without a store and with --store_sync normal or off).";

using S = v1::Table;

constexpr Series kSeries[] = {
    {"planb_routes", kRoutes, The<&S::routes_v4>, "family", "ipv4"},
    {"planb_routes", kRoutes, The<&S::routes_v6>, "family", "ipv6"},
    {"planb_intervals", kIntervals, The<&S::intervals_v4>, "family", "ipv4"},
    {"planb_intervals", kIntervals, The<&S::intervals_v6>, "family", "ipv6"},
    {"planb_next_hops", "Next-hop objects.", The<&S::next_hops>},
    {"planb_next_hop_groups", "Next-hop groups.", The<&S::groups>},
    {"planb_over_limit", kOverLimit,
     [](const Table& table, const S& s) {
       return static_cast<double>(s.routes_v4() + s.routes_v6() >
                                  table.options().limits.max_routes);
     },
     "limit", "routes"},
    {"planb_over_limit", kOverLimit,
     [](const Table& table, const S& s) {
       return static_cast<double>(s.next_hops() + s.groups() >
                                  table.options().limits.max_next_hops);
     },
     "limit", "next_hops"},
    {"planb_generation", kGeneration, The<&S::accepted_generation>, "stage",
     "accepted"},
    {"planb_generation", kGeneration, The<&S::visible_generation>, "stage",
     "visible"},
    {"planb_generation", kGeneration, The<&S::persisted_generation>, "stage",
     "persisted"},
    {"planb_last_rebuild_timestamp_seconds",
     "When the last rebuild succeeded, in seconds since the Unix epoch; 0 "
     "before the first.",
     [](const Table&, const S& s) {
       return MetricValue(s.last_build_unix_nanos()) * 1e-9;
     }},
    {"planb_complete_since_timestamp_seconds",
     "When a writer first said that the table has all that it is to have, in "
     "seconds since the Unix epoch; 0 while it is not complete.",
     [](const Table&, const S& s) {
       return MetricValue(s.complete_since_unix_nanos()) * 1e-9;
     }},
    {"planb_rebuild_failing",
     "1 while the last rebuild has failed and an older generation serves.",
     [](const Table&, const S& s) {
       return s.last_build_error().empty() ? 0. : 1.;
     }},
    {"planb_fib_bytes", "Bytes of the visible FIB.", The<&S::fib_bytes>},
    {"planb_retired_fib_bytes",
     "Bytes of older FIBs that a lookup still reads.",
     The<&S::retired_fib_bytes>},
    {"planb_oldest_fib_age_seconds",
     "Seconds since the oldest FIB that a lookup still reads was replaced; 0 "
     "if all read the visible one.",
     [](const Table& table, const S&) {
       return absl::ToDoubleSeconds(table.oldest_fib_age());
     }},
    {"planb_rib_bytes", "Bytes of the RIB.", The<&S::rib_bytes>},
    {"planb_history_bytes", "Bytes of changes kept for watchers.",
     The<&S::history_bytes>},
    {"planb_memory_bound_bytes",
     "Bytes the table may come to, rebuilding included, as admission counts "
     "them: by its prefix lengths, or measured if that does not fit.",
     The<&S::memory_bound_bytes>},
    {"planb_store_unreadable",
     "1 if what a store that servers share has of the table is damaged: "
     "lookups go on with what is visible, updates are refused "
     "(STORE_CORRUPT); also while there is no memory to apply what another "
     "server did (MEMORY_LIMIT), or more came than may wait; both pass.",
     [](const Table& table, const S&) {
       return table.replication_error().empty() ? 0. : 1.;
     }},
};

// The number of routes of each prefix length that has some.
void AddLengths(const RoutesByLength& lengths, bool v6, v1::Table& state) {
  for (size_t length = 0; length < lengths.size(); ++length) {
    if (lengths[length] == 0) continue;
    v1::LengthCount& count = *state.add_length_counts();
    count.set_v6(v6);
    count.set_length(static_cast<uint32_t>(length));
    count.set_routes(lengths[length]);
  }
}

}  // namespace

v1::Table Table::state() const {
  v1::Table state;
  state.set_name(name_);
  state.set_prefix_lengths(fib_options_.prefix_lengths);
  state.set_retired_fib_bytes(Reclaim());
  {
    const auto snapshot = published_.Read();
    state.set_fib_bytes(snapshot->fib_bytes());
    state.set_intervals_v4(snapshot->intervals(Family::kIpv4));
    state.set_intervals_v6(snapshot->intervals(Family::kIpv6));
  }
  state.set_history_bytes(history_.bytes());
  state.set_oldest_watch_generation(history_.oldest());
  state.set_max_routes(options_.limits.max_routes);
  if (options_.budget != nullptr) {
    state.set_memory_limit_bytes(options_.budget->limit());
  }
  state.set_store("none");
  if (has_store()) {
    state.set_store(std::string(options_.store->kind()));
    state.set_store_path(options_.store->path());
    state.set_store_sync(std::string(StoreSyncName(sync())));
  }
  MutexLock lock(mutex_);
  // No batch is accepted in between: what is visible is accepted.
  const UpdateStaging::Version accepted = staging_.Accepted();
  // Of the published snapshot. Waits end a moment after the publication.
  state.set_visible_generation(Read()->generation());
  state.MergeFrom(builds_);
  lock.unlock();
  state.set_accepted_generation(accepted.generation);
  state.set_persisted_generation(durable() ? accepted.generation : 0);
  state.set_writer_epoch(accepted.writer_epoch);
  state.set_memory_bound_bytes(accepted.memory_bound);
  const Rib& rib = accepted.rib;
  AddLengths(rib.lengths(Family::kIpv4), /*v6=*/false, state);
  AddLengths(rib.lengths(Family::kIpv6), /*v6=*/true, state);
  state.set_routes_v4(rib.routes(Family::kIpv4).size());
  state.set_routes_v6(rib.routes(Family::kIpv6).size());
  state.set_next_hops(rib.next_hops().next_hops().size());
  state.set_groups(rib.next_hops().groups().size());
  state.set_digest(rib.digest());
  state.set_complete_since_unix_nanos(rib.complete_since());
  state.set_rib_bytes(rib.bytes());
  return state;
}

std::vector<MetricFamily> TableMetrics::Collect() const {
  const std::vector<TableRef> tables = tables_.All();
  std::vector<v1::Table> states;
  uint64_t waiting = 0;
  uint64_t limit = 0;
  for (const TableRef& table : tables) {
    const v1::Table& state = states.emplace_back(table->state());
    waiting += state.accepted_generation() - state.visible_generation();
    limit = state.memory_limit_bytes();  // the same for all tables
  }
  std::vector<MetricFamily> families;
  for (const Series& series : kSeries) {
    if (families.empty() || families.back().name != series.name) {
      families.push_back(GaugeFamily(series.name, series.help, {}));
    }
    for (size_t i = 0; i < tables.size(); ++i) {
      MetricLabels labels = {{"table", tables[i]->name()}};
      if (series.label != nullptr) {
        labels.push_back({series.label, series.label_value});
      }
      families.back().metric.push_back(
          GaugeOf(series.value(*tables[i], states[i]), std::move(labels)));
    }
  }
  families.push_back(GaugeFamily("planb_update_queue_batches",
                                 "Batches of updates that are accepted and "
                                 "not yet visible, in all tables.",
                                 {GaugeOf(MetricValue(waiting))}));
  families.push_back(GaugeFamily("planb_tables", "Routing tables.",
                                 {GaugeOf(MetricValue(states.size()))}));
  families.push_back(GaugeFamily("planb_memory_limit_bytes",
                                 "Bytes that all tables together may come to: "
                                 "--max_table_memory_bytes.",
                                 {GaugeOf(MetricValue(limit))}));
  families.push_back(
      GaugeFamily("planb_store_lag_seconds",
                  "Seconds since a store that servers share, or the server of "
                  "--follow, was last heard, which is every second while it "
                  "answers (and, for --follow, while its tables are not "
                  "behind); 0 for a store of this server alone.",
                  {GaugeOf(absl::ToDoubleSeconds(tables_.store_lag()))}));
  families.push_back(GaugeFamily("planb_store_tables_missing",
                                 "Tables of a shared store, or of the server "
                                 "of --follow, that this server "
                                 "lacks, because they cannot be read or "
                                 "followed, for example for want of a watch "
                                 "(--max_watchers there); the log names them.",
                                 {GaugeOf(MetricValue(tables_.missing()))}));
  families.push_back(GaugeFamily("planb_kernel_info",
                                 "The search kernel in use; always 1.",
                                 {GaugeOf(1, {{"kernel", kernel_}})}));
  return families;
}

}  // namespace planb::server
