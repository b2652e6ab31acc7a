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

// Errors: INVALID_ARGUMENT, saying what is wrong, for anything but the packed
// form of a well-formed prefix.
absl::StatusOr<Prefix> FromProto(const v1::Prefix& prefix);

// Errors: INVALID_ARGUMENT for a gateway of a wrong size.
absl::StatusOr<NextHop> FromProto(const v1::NextHop& next_hop);

}  // namespace planb::client

#endif  // PLANB_CLIENT_CONVERT_H_
