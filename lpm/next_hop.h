// What a next-hop id means, for people and controllers; lookups return the id.

#ifndef PLANB_LPM_NEXT_HOP_H_
#define PLANB_LPM_NEXT_HOP_H_

#include <cstdint>
#include <optional>
#include <string>

#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

// A plain value. Only `id` matters to the engine.
struct NextHop {
  NextHopId id = kNoRoute;
  std::optional<Address> gateway;
  std::string interface;
  uint32_t weight = 1;
  std::string label;

  friend bool operator==(const NextHop&, const NextHop&) = default;
};

}  // namespace planb

#endif  // PLANB_LPM_NEXT_HOP_H_
