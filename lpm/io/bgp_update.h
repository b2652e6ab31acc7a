// BGP messages, as far as they change routes: UPDATE (RFC 4271 section 4.3,
// RFC 4760).

#ifndef PLANB_LPM_IO_BGP_UPDATE_H_
#define PLANB_LPM_IO_BGP_UPDATE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/address.h"
#include "lpm/io/nlri.h"

namespace planb {

struct BgpAnnounce {
  NlriPrefix nlri;
  Address gateway;

  friend bool operator==(const BgpAnnounce&, const BgpAnnounce&) = default;
};

// A prefix that is withdrawn and announced at once is announced (RFC 4271).
struct BgpUpdate {
  std::vector<NlriPrefix> withdraws;
  std::vector<BgpAnnounce> announces;

  bool empty() const { return withdraws.empty() && announces.empty(); }
};

// Parses one whole message. What is not unicast is passed over; so is every
// attribute but the next hop. Empty if the message changes no unicast route: no
// UPDATE, the end of a RIB, another address family.
// Errors: INVALID_ARGUMENT, saying what is wrong. Nothing of the message is of
// use then, as RFC 7606 would have it only for some errors.
absl::StatusOr<BgpUpdate> ParseBgpMessage(absl::string_view message,
                                          bool additional_paths);

}  // namespace planb

#endif  // PLANB_LPM_IO_BGP_UPDATE_H_
