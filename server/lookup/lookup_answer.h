// SPDX-License-Identifier: Apache-2.0

// Answering one Lookup: a few addresses, typed, without the network around it.

#ifndef PLANB_SERVER_LOOKUP_LOOKUP_ANSWER_H_
#define PLANB_SERVER_LOOKUP_LOOKUP_ANSWER_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "lpm/address.h"
#include "lpm/fib/fib.h"
#include "planb/v1/route_lookup.pb.h"
#include "server/table/snapshot.h"

namespace planb::server {

// The addresses of `request`, which is otherwise sound too.
// Errors: RESOURCE_EXHAUSTED (BATCH_TOO_LARGE) for more than `limit`;
// INVALID_ARGUMENT (ADDRESS_INVALID, for each that is none;
// FLOW_HASHES_LENGTH), with the field's name.
absl::StatusOr<std::vector<Address>> DecodeAddresses(
    const v1::LookupRequest& request, size_t limit);

// Answers each of `addresses` from `snapshot`. Returns how many had no route.
// REQUIRES: DecodeAddresses(request) gave `addresses`.
size_t AnswerLookup(const Snapshot& snapshot, const Kernel& kernel,
                    const std::vector<Address>& addresses,
                    const v1::LookupRequest& request,
                    v1::LookupResponse& response);

}  // namespace planb::server

#endif  // PLANB_SERVER_LOOKUP_LOOKUP_ANSWER_H_
