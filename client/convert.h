// SPDX-License-Identifier: Apache-2.0

// Between the engine's values and the contract's messages.

#ifndef PLANB_CLIENT_CONVERT_H_
#define PLANB_CLIENT_CONVERT_H_

#include "absl/status/statusor.h"
#include "lpm/prefix.h"
#include "planb/v1/types.pb.h"

namespace planb::client {

// In the packed form.
v1::Prefix ToProto(const Prefix& prefix);
v1::NextHop ToProto(const NextHop& next_hop);
v1::NextHopGroup ToProto(const NextHopGroup& group);
v1::Route ToProto(const Route& route);

// Errors: INVALID_ARGUMENT, saying what is wrong, for anything but the packed
// form of a well-formed prefix.
absl::StatusOr<Prefix> FromProto(const v1::Prefix& prefix);

// Errors: INVALID_ARGUMENT for a gateway of a wrong size.
absl::StatusOr<NextHop> FromProto(const v1::NextHop& next_hop);

// Any message is a group; weights of 0 become 1.
NextHopGroup FromProto(const v1::NextHopGroup& group);

// Errors: INVALID_ARGUMENT, as of its prefix, or for a next hop that is none.
absl::StatusOr<Route> FromProto(const v1::Route& route);

}  // namespace planb::client

#endif  // PLANB_CLIENT_CONVERT_H_
