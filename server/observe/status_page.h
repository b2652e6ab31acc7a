// SPDX-License-Identifier: Apache-2.0

// /statusz: what somebody wants to know who was woken at night. One page, no
// scripts, nothing to fetch.

#ifndef PLANB_SERVER_OBSERVE_STATUS_PAGE_H_
#define PLANB_SERVER_OBSERVE_STATUS_PAGE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "prometheus/metric_family.h"
#include "server/table/table_state.h"

namespace planb::server {

// A flag of the command line, as it is in force.
struct FlagValue {
  std::string name;
  std::string value;
  bool is_default = true;
};

// Streams of one kind that are open, and how many may be.
struct StreamCount {
  std::string kind;
  uint64_t open = 0;
  uint64_t limit = 0;
};

// What the page is made of. Plain values.
struct StatusReport {
  absl::Time now;
  absl::Time started;
  std::string not_ready;  // "" if ready, else why not
  // All that is exported: what is shown is what is measured.
  std::vector<prometheus::MetricFamily> metrics;
  std::vector<TableState> tables;
  std::vector<RebuildRecord> rebuilds;  // newest first
  // Updates refused, by reason.
  std::vector<std::pair<std::string, uint64_t>> refusals;
  std::vector<StreamCount> streams;
  std::vector<FlagValue> flags;
};

// The page as HTML, everything in `report` escaped.
std::string RenderStatus(const StatusReport& report);

// The flags that planb_server defines, by name. The values of those that look
// like secrets are left out.
std::vector<FlagValue> FlagsInForce();

}  // namespace planb::server

#endif  // PLANB_SERVER_OBSERVE_STATUS_PAGE_H_
