// Answering one batch of packed addresses: the service's reason to be, without
// the network around it.

#ifndef PLANB_SERVER_BATCH_H_
#define PLANB_SERVER_BATCH_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lpm/fib.h"
#include "planb/v1/route_lookup.pb.h"
#include "server/snapshot.h"

namespace planb::server {

struct LookupLimits {
  size_t max_batch_addresses = 1 << 20;
  // In a unary lookup, or in a batch that wants prefix lengths: what takes
  // microseconds an address.
  size_t max_lookup_addresses = 4096;
  absl::Duration max_generation_wait = absl::Seconds(10);
  // BatchLookup streams open at once.
  size_t max_streams = 10'000;
};

// Errors: INVALID_ARGUMENT (ADDRESSES_LENGTH), RESOURCE_EXHAUSTED
// (BATCH_TOO_LARGE), with the field's name.
absl::Status CheckBatch(const v1::BatchLookupRequest& request,
                        const LookupLimits& limits);

// Answers every address of `request` from `snapshot` into `response`, which
// must be empty. Returns how many addresses had no route.
// REQUIRES: CheckBatch(request) is OK.
size_t AnswerBatch(const Snapshot& snapshot, const Kernel& kernel,
                   const v1::BatchLookupRequest& request,
                   v1::BatchLookupResponse& response);

// Writes `error` in band. `generation` is what is visible now.
void FailBatch(const absl::Status& error, uint64_t request_id,
               uint64_t generation, v1::BatchLookupResponse& response);

// Number of addresses in a request.
size_t BatchSize(const v1::BatchLookupRequest& request);

}  // namespace planb::server

#endif  // PLANB_SERVER_BATCH_H_
