// SPDX-License-Identifier: Apache-2.0

// Answering one batch of packed addresses: the service's reason to be, without
// the network around it.

#ifndef PLANB_SERVER_LOOKUP_BATCH_H_
#define PLANB_SERVER_LOOKUP_BATCH_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lpm/fib/fib.h"
#include "planb/v1/route_lookup.pb.h"
#include "proto/wire/batch_request.h"
#include "proto/wire/batch_response.h"
#include "server/table/snapshot.h"

namespace planb::server {

struct LookupLimits {
  size_t max_batch_addresses = 1 << 18;
  // In a unary lookup, or in a batch that wants prefix lengths: what takes
  // microseconds an address.
  size_t max_lookup_addresses = 4096;
  absl::Duration max_generation_wait = absl::Seconds(10);
  // BatchLookup streams open at once.
  size_t max_streams = 10'000;
};

// Number of addresses in a request.
size_t BatchSize(const wire::BatchRequest& request);

// Errors: INVALID_ARGUMENT (ADDRESSES_LENGTH, FLOW_HASHES_LENGTH,
// PREFIX_LENGTHS_UNDECIDED), RESOURCE_EXHAUSTED (BATCH_TOO_LARGE), with the
// field's name.
absl::Status CheckBatch(const wire::BatchRequest& request,
                        const LookupLimits& limits);

// Answers every address of `request` from `snapshot` into `answers`, which has
// room for them. Returns how many addresses had no route.
// REQUIRES: CheckBatch(request) is OK.
size_t AnswerBatch(const Snapshot& snapshot, const Kernel& kernel,
                   const wire::BatchRequest& request,
                   const wire::ResponseBody& answers);

// Writes `error` in band. `generation` is what is visible now.
void FailBatch(const absl::Status& error, uint64_t request_id,
               uint64_t generation, v1::BatchLookupResponse& response);

}  // namespace planb::server

#endif  // PLANB_SERVER_LOOKUP_BATCH_H_
