// SPDX-License-Identifier: Apache-2.0

// The state of every table, as a scrape shows it.

#ifndef PLANB_SERVER_TABLE_TABLE_METRICS_H_
#define PLANB_SERVER_TABLE_TABLE_METRICS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "server/table/tables.h"

namespace planb::server {

// Thread-safe. Read when scraped; labelled with the tables' names, of which
// there are at most TablesOptions::max_tables. The first scrape after a change
// counts intervals: Snapshot::intervals.
class TableMetrics : public prometheus::Collectable {
 public:
  // `tables` outlives this. `kernel` is that of lookups.
  TableMetrics(Tables& tables, absl::string_view kernel)
      : tables_(tables), kernel_(kernel) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  Tables& tables_;
  const std::string kernel_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_TABLE_METRICS_H_
