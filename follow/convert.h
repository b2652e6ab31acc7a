// SPDX-License-Identifier: Apache-2.0

// Conversions between messages of the contract and the values of lpm/.

#ifndef PLANB_FOLLOW_CONVERT_H_
#define PLANB_FOLLOW_CONVERT_H_

#include "absl/status/statusor.h"
#include "lpm/prefix.h"
#include "planb/v1/route_lookup.pb.h"
#include "planb/v1/types.pb.h"

namespace planb {

// Errors: INVALID_ARGUMENT without a field path, which the caller adds.
absl::StatusOr<Address> DecodeAddress(const v1::Address& address);
absl::StatusOr<Prefix> DecodePrefix(const v1::Prefix& prefix);
absl::StatusOr<NextHop> DecodeNextHop(const v1::NextHop& next_hop);
absl::StatusOr<NextHopGroup> DecodeGroup(const v1::NextHopGroup& group);

void Encode(const Prefix& prefix, v1::Prefix& out);
void Encode(const NextHop& next_hop, v1::NextHop& out);
void Encode(const NextHopGroup& group, v1::NextHopGroup& out);
void Encode(const Route& route, v1::Route& out);

}  // namespace planb

#endif  // PLANB_FOLLOW_CONVERT_H_
