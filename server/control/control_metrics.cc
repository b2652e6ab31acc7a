// SPDX-License-Identifier: Apache-2.0

#include "server/control/control_metrics.h"

#include <cstddef>
#include <cstdint>

#include "server/base/duration_buckets.h"
#include "server/base/metric_families.h"

namespace planb::server {
namespace {

// In the order of the enumerations.
constexpr const char* kOpNames[] = {"upsert", "insert", "replace", "delete"};
constexpr const char* kResultNames[] = {"changed", "unchanged", "refused"};
constexpr const char* kStreamNames[] = {"update", "replacement", "list",
                                        "watch", "replicated"};
constexpr const char* kEndNames[] = {"STREAM_IDLE", "READER_STALLED"};

}  // namespace

ControlMetrics::ControlMetrics()
    : registry_(std::make_shared<prometheus::Registry>()) {
  const prometheus::Histogram::BucketBoundaries bounds(
      kDurationBoundsSeconds.begin(), kDurationBoundsSeconds.end());
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
  auto& rebuilds = counter("planb_rebuilds_total", "FIBs published.");
  auto& durations = histogram("planb_rebuild_duration_seconds",
                              "Time to compile each FIB, in seconds.");
  for (const bool full : {false, true}) {
    const char* const kind = full ? "full" : "incremental";
    rebuilds_[full] = &rebuilds.Add({{"kind", kind}});
    rebuild_durations_[full] = &durations.Add({{"kind", kind}}, bounds);
  }
  failed_rebuilds_ = &counter("planb_rebuild_failures_total",
                              "Rebuilds that failed; each is tried again.")
                          .Add({});
  visibility_ =
      &histogram(
           "planb_visibility_seconds",
           "Time from the acceptance of a batch to its visibility, in seconds.")
           .Add({}, bounds);
  store_duration_ =
      &histogram("planb_store_commit_seconds",
                 "Time until the store has what one table had waiting, other "
                 "tables that it is committed with included, in seconds.")
           .Add({}, bounds);
  store_errors_ =
      &counter("planb_store_errors_total",
               "Times that the store refused what one table had waiting.")
           .Add({});
  auto& updates =
      counter("planb_update_batches_total",
              "Batches of updates answered; a replacement or an import is one. "
              "Validated: only that was asked for, and it is valid.");
  accepted_ = &updates.Add({{"result", "accepted"}});
  unchanged_ = &updates.Add({{"result", "unchanged"}});
  validated_ = &updates.Add({{"result", "validated"}});
  refused_ = &updates.Add({{"result", "refused"}});
  auto& operations = counter(
      "planb_update_operations_total",
      "Changes of single routes that batches of updates asked for. A batch is "
      "refused as a whole. Strict deletes count as delete; a replacement of "
      "the whole table upserts what it lists and deletes the rest. What is "
      "only validated, operations that are none, and batches that are refused "
      "before they are parsed do not count.");
  for (size_t op = 0; op < OperationCounts::kOps; ++op) {
    for (size_t result = 0; result < OperationCounts::kResults; ++result) {
      operations_[op][result] = &operations.Add(
          {{"op", kOpNames[op]}, {"result", kResultNames[result]}});
    }
  }
  auto& streams = prometheus::BuildGauge()
                      .Name("planb_control_streams")
                      .Help(
                          "Open streams of RouteTable; replicated: calls of "
                          "UpdateRoutes and UpdateNextHops with "
                          "ACK_REPLICATED. Each list keeps one generation of "
                          "its table in memory, without its FIB; generations "
                          "share what they have in common, so its bytes are "
                          "not known.")
                      .Register(*registry_);
  for (size_t kind = 0; kind < streams_.size(); ++kind) {
    streams_[kind] = &streams.Add({{"kind", kStreamNames[kind]}});
  }
  auto& ended = counter("planb_control_calls_ended_total",
                        "Calls of RouteTable, Health and reflection that the "
                        "server ended because their client sent nothing, or "
                        "took nothing, for too long.");
  for (size_t why = 0; why < ended_.size(); ++why) {
    ended_[why] = &ended.Add({{"reason", kEndNames[why]}});
  }
}

TableEvents ControlMetrics::Events() {
  return {
      .built =
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
          },
      .operated = [this](const OperationCounts& counts) { Operated(counts); }};
}

void ControlMetrics::Updated(absl::string_view result) {
  prometheus::Counter* const counter = result == "accepted"    ? accepted_
                                       : result == "unchanged" ? unchanged_
                                       : result == "validated" ? validated_
                                                               : refused_;
  counter->Increment();
}

void ControlMetrics::Operated(const OperationCounts& counts) {
  for (size_t op = 0; op < OperationCounts::kOps; ++op) {
    for (size_t result = 0; result < OperationCounts::kResults; ++result) {
      const uint64_t count = counts.counts[op][result];
      if (count > 0) operations_[op][result]->Increment(MetricValue(count));
    }
  }
}

}  // namespace planb::server
