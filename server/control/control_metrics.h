// SPDX-License-Identifier: Apache-2.0

// The metrics of the control path: batches of updates, streams, rebuilds, the
// store.

#ifndef PLANB_SERVER_CONTROL_CONTROL_METRICS_H_
#define PLANB_SERVER_CONTROL_CONTROL_METRICS_H_

#include <array>
#include <cstddef>
#include <memory>

#include "absl/strings/string_view.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "server/table/table.h"
#include "server/table/update.h"

namespace planb::server {

// The kinds of calls that have a bound of their own, streams but for
// kReplicated, and why the server ends a call by itself.
enum class StreamKind { kUpdate, kReplacement, kList, kWatch, kReplicated };
enum class CallEnd { kIdle, kStalled };

// Thread-safe. All series exist from the start.
class ControlMetrics {
 public:
  ControlMetrics();

  // The callbacks by which tables report. Valid for as long as this lives.
  TableEvents Events();

  // Counts a batch of updates that was answered. `result` is "accepted",
  // "unchanged", "validated" or "refused". Others count as "refused".
  void Updated(absl::string_view result);

  // Counts the operations of a batch that was answered. Tables report those of
  // the batches that reached them.
  void Operated(const OperationCounts& counts);

  // The open streams of a kind.
  prometheus::Gauge& streams(StreamKind kind) {
    return *streams_[static_cast<size_t>(kind)];
  }

  // Counts a call that was ended.
  void Ended(CallEnd why) { ended_[static_cast<size_t>(why)]->Increment(); }

  std::shared_ptr<prometheus::Collectable> collectable() const {
    return registry_;
  }

 private:
  std::shared_ptr<prometheus::Registry> registry_;
  // Incremental and full.
  std::array<prometheus::Histogram*, 2> rebuild_durations_;
  std::array<prometheus::Counter*, 2> rebuilds_;
  prometheus::Counter* failed_rebuilds_;
  prometheus::Histogram* visibility_;
  prometheus::Histogram* store_duration_;
  prometheus::Counter* store_errors_;
  prometheus::Counter* accepted_;
  prometheus::Counter* unchanged_;
  prometheus::Counter* validated_;
  prometheus::Counter* refused_;
  std::array<std::array<prometheus::Counter*, OperationCounts::kResults>,
             OperationCounts::kOps>
      operations_;
  std::array<prometheus::Gauge*, 5> streams_;
  std::array<prometheus::Counter*, 2> ended_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_CONTROL_CONTROL_METRICS_H_
