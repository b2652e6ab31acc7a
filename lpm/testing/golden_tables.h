// The tables that the engine's costs are stated for: made up, the same always
// and everywhere, small enough to measure in a test.

#ifndef PLANB_LPM_TESTING_GOLDEN_TABLES_H_
#define PLANB_LPM_TESTING_GOLDEN_TABLES_H_

#include <cstddef>
#include <vector>

#include "absl/strings/string_view.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

struct GoldenTable {
  absl::string_view name;
  Family family;
  std::vector<Route> routes;  // ascending
};

// "ipv6_20k" and "ipv6_100k", whose leaves hold values of one octet;
// "ipv4_100k" with two octets; and "ipv6_long": half of its 20,000 routes are
// /49../128, in and beside the others, and its next hops have large ids, so
// that values are not the ids themselves.
std::vector<GoldenTable> GoldenTables();

// Fixed addresses that match it, for the most part.
std::vector<Address> GoldenTrace(const GoldenTable& table, size_t count);

}  // namespace planb

#endif  // PLANB_LPM_TESTING_GOLDEN_TABLES_H_
