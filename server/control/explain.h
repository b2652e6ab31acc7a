// SPDX-License-Identifier: Apache-2.0

// Why an address goes where it goes.

#ifndef PLANB_SERVER_CONTROL_EXPLAIN_H_
#define PLANB_SERVER_CONTROL_EXPLAIN_H_

#include "absl/status/status.h"
#include "lpm/fib/fib.h"
#include "planb/v1/route_table.pb.h"
#include "server/table/snapshot.h"

namespace planb::server {

// Answers from one snapshot. Errors: INVALID_ARGUMENT (ADDRESS_INVALID).
absl::Status Explain(const Snapshot& snapshot, const Kernel& kernel,
                     const v1::ExplainLookupRequest& request,
                     v1::ExplainLookupResponse& response);

}  // namespace planb::server

#endif  // PLANB_SERVER_CONTROL_EXPLAIN_H_
