// Between the wire's messages and the engine's types. All validation of what a
// caller sent, field by field, is here.

#ifndef PLANB_SERVER_CONVERT_H_
#define PLANB_SERVER_CONVERT_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "lpm/prefix.h"
#include "planb/v1/route_lookup.pb.h"
#include "planb/v1/route_table.pb.h"
#include "planb/v1/types.pb.h"
#include "server/table.h"

namespace planb::server {

// Errors: INVALID_ARGUMENT, plain; the caller knows the field's path.
absl::StatusOr<Address> DecodeAddress(const v1::Address& address);
absl::StatusOr<Prefix> DecodePrefix(const v1::Prefix& prefix);
absl::StatusOr<NextHop> DecodeNextHop(const v1::NextHop& next_hop);

// Decodes a whole request, at most `max_updates` changes and as many next
// hops. Errors: INVALID_ARGUMENT with the paths of the fields at fault,
// RESOURCE_EXHAUSTED (BATCH_TOO_LARGE).
absl::StatusOr<UpdateBatch> DecodeUpdate(const v1::UpdateRoutesRequest& request,
                                         size_t max_updates);

void Encode(const Prefix& prefix, v1::Prefix& out);
void Encode(const NextHop& next_hop, v1::NextHop& out);
void Encode(const Route& route, v1::Route& out);
void Encode(const TableState& state, v1::Table& out);

}  // namespace planb::server

#endif  // PLANB_SERVER_CONVERT_H_
