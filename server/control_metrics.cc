#include "server/control_metrics.h"

#include <string>
#include <utility>

namespace planb::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// 1-2-5 from 100 us to 10 s.
const prometheus::Histogram::BucketBoundaries kRebuildBounds = {
    1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2,
    5e-2, 1e-1, 2e-1, 5e-1, 1.,   2.,   5.,   10.};

ClientMetric GaugeOf(double value, Labels labels) {
  ClientMetric metric;
  metric.gauge.value = value;
  metric.label = std::move(labels);
  return metric;
}

MetricFamily Gauges(const char* name, const char* help,
                    std::vector<ClientMetric> metrics) {
  return {name, help, MetricType::Gauge, std::move(metrics)};
}

double Number(uint64_t value) { return static_cast<double>(value); }

}  // namespace

ControlMetrics::ControlMetrics()
    : registry_(std::make_shared<prometheus::Registry>()) {
  rebuild_duration_ =
      &prometheus::BuildHistogram()
           .Name("planb_rebuild_duration_seconds")
           .Help("Time to compile the RIB and publish the result.")
           .Register(*registry_)
           .Add({}, kRebuildBounds);
  rebuilds_ = &prometheus::BuildCounter()
                   .Name("planb_rebuilds_total")
                   .Help("Rebuilds that were published.")
                   .Register(*registry_)
                   .Add({});
  auto& updates = prometheus::BuildCounter()
                      .Name("planb_update_batches_total")
                      .Help("UpdateRoutes batches, by result.")
                      .Register(*registry_);
  accepted_ = &updates.Add({{"result", "accepted"}});
  unchanged_ = &updates.Add({{"result", "unchanged"}});
  validated_ = &updates.Add({{"result", "validated"}});
  refused_ = &updates.Add({{"result", "refused"}});
}

void ControlMetrics::Rebuilt(double seconds) {
  rebuilds_->Increment();
  rebuild_duration_->Observe(seconds);
}

void ControlMetrics::Updated(absl::string_view result) {
  prometheus::Counter* const counter = result == "accepted"    ? accepted_
                                       : result == "unchanged" ? unchanged_
                                       : result == "validated" ? validated_
                                                               : refused_;
  counter->Increment();
}

std::vector<MetricFamily> TableMetrics::Collect() const {
  const TableState state = tables_.default_table().state();
  const ClientMetric::Label table = {"table", Tables::kDefault};
  const auto by_family = [&table](uint64_t v4, uint64_t v6) {
    return std::vector<ClientMetric>{
        GaugeOf(Number(v4), {table, {"family", "ipv4"}}),
        GaugeOf(Number(v6), {table, {"family", "ipv6"}})};
  };
  const double last_build =
      state.last_build_at == absl::InfinitePast()
          ? 0
          : absl::ToDoubleSeconds(state.last_build_at - absl::UnixEpoch());
  return {
      Gauges("planb_routes", "Routes in the RIB.",
             by_family(state.routes_v4, state.routes_v6)),
      Gauges("planb_intervals", "Elementary intervals of the visible FIB.",
             by_family(state.intervals_v4, state.intervals_v6)),
      Gauges("planb_generation",
             "Generation of the table: accepted, and visible to lookups.",
             {GaugeOf(Number(state.accepted), {table, {"stage", "accepted"}}),
              GaugeOf(Number(state.visible), {table, {"stage", "visible"}})}),
      Gauges("planb_fib_bytes", "Octets held by the visible FIB.",
             {GaugeOf(Number(state.fib_bytes), {table})}),
      Gauges("planb_retired_fib_bytes",
             "Octets held by older FIBs that a lookup still reads.",
             {GaugeOf(Number(state.retired_fib_bytes), {table})}),
      Gauges("planb_rib_bytes", "Octets held by the RIB, estimated.",
             {GaugeOf(Number(state.rib_bytes), {table})}),
      Gauges("planb_next_hops", "Next-hop objects.",
             {GaugeOf(Number(state.next_hops), {table})}),
      Gauges("planb_last_rebuild_timestamp_seconds",
             "When the last rebuild succeeded, seconds since the Unix epoch; "
             "0 before the first.",
             {GaugeOf(last_build, {table})}),
      Gauges("planb_kernel_info", "The search kernel in use; always 1.",
             {GaugeOf(1, {{"kernel", kernel_}})}),
  };
}

}  // namespace planb::server
