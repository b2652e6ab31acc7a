#include "lpm/io/gateway_ids.h"

#include "absl/status/status.h"

namespace planb {

absl::StatusOr<GatewayIds::Id> GatewayIds::IdOf(const Address& gateway) {
  const auto found = ids_.find(gateway);
  if (found != ids_.end()) return Id{found->second, false};
  if (next_ >= kUndecided) {
    return absl::ResourceExhaustedError("more next hops than ids");
  }
  const Id id{static_cast<NextHopId>(next_++), true};
  ids_[gateway] = id.id;
  return id;
}

}  // namespace planb
