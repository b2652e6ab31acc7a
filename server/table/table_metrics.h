// SPDX-License-Identifier: Apache-2.0

// Metrics of the state of every table.

#ifndef PLANB_SERVER_TABLE_TABLE_METRICS_H_
#define PLANB_SERVER_TABLE_TABLE_METRICS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "server/table/tables.h"

namespace planb::server {

// Reads the tables during a scrape. Series have the table's name as a label,
// with at most TablesOptions::max_tables values. The first scrape after a
// change counts intervals, which takes time: see Snapshot::intervals.
// Thread-safe.
class TableMetrics : public prometheus::Collectable {
 public:
  // `tables` must outlive this. `kernel` is the kernel that lookups use.
  TableMetrics(Tables& tables, absl::string_view kernel)
      : tables_(tables), kernel_(kernel) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  Tables& tables_;
  const std::string kernel_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_TABLE_METRICS_H_
