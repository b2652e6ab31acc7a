// SPDX-License-Identifier: Apache-2.0

// Whether all that was read, looked up or watched is what the table was at the
// generation it names, and whether that was new enough.

#ifndef PLANB_SERVER_TESTING_MODEL_READS_H_
#define PLANB_SERVER_TESTING_MODEL_READS_H_

#include "server/testing/model_faults.h"
#include "server/testing/model_history.h"
#include "server/testing/model_order.h"

namespace planb::server {

// REQUIRES: `order` is that of `history`, and there is one.
void CheckReads(const ModelHistory& history, const ModelOrder& order,
                ModelFaults& faults);

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MODEL_READS_H_
