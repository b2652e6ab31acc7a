// Numbers gateways, which MRT files name by address alone, as next hops.

#ifndef PLANB_LPM_IO_GATEWAY_IDS_H_
#define PLANB_LPM_IO_GATEWAY_IDS_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

// Invariant: the gateways seen have ids from the first on, without gaps, in
// order of appearance. Thread-compatible.
class GatewayIds {
 public:
  struct Id {
    NextHopId id = kNoRoute;
    bool is_new = false;  // not seen before
  };

  // REQUIRES: IsNextHop(first).
  explicit GatewayIds(NextHopId first) : next_(first) {}

  // O(1). Errors: RESOURCE_EXHAUSTED when the ids run out.
  absl::StatusOr<Id> IdOf(const Address& gateway);

 private:
  absl::flat_hash_map<Address, NextHopId> ids_;
  uint64_t next_;  // wider than an id: may pass the last one
};

}  // namespace planb

#endif  // PLANB_LPM_IO_GATEWAY_IDS_H_
