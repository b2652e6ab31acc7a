#include "server/control_metrics.h"

#include <string>
#include <utility>

namespace planb::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// 1-2-5 from 10 us to 10 s.
const prometheus::Histogram::BucketBoundaries kBounds = {
    1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2,
    2e-2, 5e-2, 1e-1, 2e-1, 5e-1, 1.,   2.,   5.,   10.};

ClientMetric GaugeOf(double value, Labels labels) {
  ClientMetric metric;
  metric.gauge.value = value;
  metric.label = std::move(labels);
  return metric;
}

MetricFamily Gauges(const char* name, const char* help) {
  return {name, help, MetricType::Gauge, {}};
}

double Number(uint64_t value) { return static_cast<double>(value); }

}  // namespace

ControlMetrics::ControlMetrics()
    : registry_(std::make_shared<prometheus::Registry>()) {
  const auto histogram =
      [this](const char* name,
             const char* help) -> prometheus::Family<prometheus::Histogram>& {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(
        *registry_);
  };
  const auto counter =
      [this](const char* name,
             const char* help) -> prometheus::Family<prometheus::Counter>& {
    return prometheus::BuildCounter().Name(name).Help(help).Register(
        *registry_);
  };
  auto& rebuilds =
      counter("planb_rebuilds_total", "Rebuilds that were published, by kind.");
  auto& durations =
      histogram("planb_rebuild_duration_seconds",
                "Time to compile the RIB and publish the result, by kind.");
  for (const bool full : {false, true}) {
    const char* const kind = full ? "full" : "incremental";
    rebuilds_[full] = &rebuilds.Add({{"kind", kind}});
    rebuild_durations_[full] = &durations.Add({{"kind", kind}}, kBounds);
  }
  failed_rebuilds_ = &counter("planb_rebuild_failures_total",
                              "Rebuilds that failed; each is tried again.")
                          .Add({});
  visibility_ =
      &histogram("planb_visibility_seconds",
                 "Time from the acceptance of a batch to its visibility.")
           .Add({}, kBounds);
  store_duration_ = &histogram("planb_store_commit_seconds",
                               "Time to commit batches to the store.")
                         .Add({}, kBounds);
  store_errors_ =
      &counter("planb_store_errors_total", "Commits that the store refused.")
           .Add({});
  auto& updates = prometheus::BuildCounter()
                      .Name("planb_update_batches_total")
                      .Help("Batches of updates, by result.")
                      .Register(*registry_);
  accepted_ = &updates.Add({{"result", "accepted"}});
  unchanged_ = &updates.Add({{"result", "unchanged"}});
  validated_ = &updates.Add({{"result", "validated"}});
  refused_ = &updates.Add({{"result", "refused"}});
}

TableEvents ControlMetrics::Events() {
  return {.built =
              [this](absl::Duration took, bool full) {
                rebuilds_[full]->Increment();
                rebuild_durations_[full]->Observe(absl::ToDoubleSeconds(took));
              },
          .build_failed = [this] { failed_rebuilds_->Increment(); },
          .visible =
              [this](absl::Duration since_accepted) {
                visibility_->Observe(absl::ToDoubleSeconds(since_accepted));
              },
          .stored =
              [this](absl::Duration took, bool ok) {
                store_duration_->Observe(absl::ToDoubleSeconds(took));
                if (!ok) store_errors_->Increment();
              }};
}

void ControlMetrics::Updated(absl::string_view result) {
  prometheus::Counter* const counter = result == "accepted"    ? accepted_
                                       : result == "unchanged" ? unchanged_
                                       : result == "validated" ? validated_
                                                               : refused_;
  counter->Increment();
}

std::vector<MetricFamily> TableMetrics::Collect() const {
  MetricFamily routes = Gauges("planb_routes", "Routes in the RIB.");
  MetricFamily intervals =
      Gauges("planb_intervals", "Elementary intervals of the visible FIB.");
  MetricFamily generation =
      Gauges("planb_generation",
             "Generation of the table: accepted, visible to lookups, and safe "
             "from a crash (0 without a store).");
  MetricFamily fib =
      Gauges("planb_fib_bytes", "Octets held by the visible FIB.");
  MetricFamily retired =
      Gauges("planb_retired_fib_bytes",
             "Octets held by older FIBs that a lookup still reads.");
  MetricFamily rib = Gauges("planb_rib_bytes", "Octets held by the RIB.");
  MetricFamily history =
      Gauges("planb_history_bytes", "Octets of changes kept for watchers.");
  MetricFamily bound =
      Gauges("planb_memory_bound_bytes",
             "Octets the table may come to, as admission counts them.");
  MetricFamily next_hops = Gauges("planb_next_hops", "Next-hop objects.");
  MetricFamily groups = Gauges("planb_next_hop_groups", "Next-hop groups.");
  MetricFamily last_build =
      Gauges("planb_last_rebuild_timestamp_seconds",
             "When the last rebuild succeeded, seconds since the Unix epoch; "
             "0 before the first.");
  MetricFamily failing = Gauges(
      "planb_rebuild_failing",
      "1 while the last rebuild has failed and an older generation serves.");
  uint64_t limit = 0;
  const std::vector<TableRef> all = tables_.All();
  for (const TableRef& each : all) {
    const TableState state = each->state();
    const ClientMetric::Label table = {"table", state.name};
    const auto add = [&table](MetricFamily& family, double value,
                              Labels more = {}) {
      more.insert(more.begin(), table);
      family.metric.push_back(GaugeOf(value, std::move(more)));
    };
    add(routes, Number(state.routes_v4), {{"family", "ipv4"}});
    add(routes, Number(state.routes_v6), {{"family", "ipv6"}});
    add(intervals, Number(state.intervals_v4), {{"family", "ipv4"}});
    add(intervals, Number(state.intervals_v6), {{"family", "ipv6"}});
    add(generation, Number(state.accepted), {{"stage", "accepted"}});
    add(generation, Number(state.visible), {{"stage", "visible"}});
    add(generation, Number(state.persisted), {{"stage", "persisted"}});
    add(fib, Number(state.fib_bytes));
    add(retired, Number(state.retired_fib_bytes));
    add(rib, Number(state.rib_bytes));
    add(history, Number(state.history_bytes));
    add(bound, Number(state.memory_bound));
    add(next_hops, Number(state.next_hops));
    add(groups, Number(state.groups));
    add(last_build,
        state.builds.last_at == absl::InfinitePast()
            ? 0
            : absl::ToDoubleSeconds(state.builds.last_at - absl::UnixEpoch()));
    add(failing, state.builds.last_error.empty() ? 0 : 1);
    limit = state.memory_limit;
  }
  MetricFamily tables = Gauges("planb_tables", "Routing tables.");
  tables.metric.push_back(GaugeOf(Number(all.size()), {}));
  MetricFamily memory_limit =
      Gauges("planb_memory_limit_bytes",
             "Octets that admission lets all tables come to.");
  memory_limit.metric.push_back(GaugeOf(Number(limit), {}));
  MetricFamily kernel =
      Gauges("planb_kernel_info", "The search kernel in use; always 1.");
  kernel.metric.push_back(GaugeOf(1, {{"kernel", kernel_}}));
  return {std::move(routes),  std::move(intervals),    std::move(generation),
          std::move(fib),     std::move(retired),      std::move(rib),
          std::move(history), std::move(bound),        std::move(next_hops),
          std::move(groups),  std::move(last_build),   std::move(failing),
          std::move(tables),  std::move(memory_limit), std::move(kernel)};
}

}  // namespace planb::server
