// SPDX-License-Identifier: Apache-2.0

// Tables made to be as bad for a FIB as tables can be, one of each kind.

#ifndef PLANB_LPM_TESTING_ADVERSARIAL_TABLES_H_
#define PLANB_LPM_TESTING_ADVERSARIAL_TABLES_H_

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

// The bounds on the memory of a FIB of any of them, in bytes. A table that
// stays below them, or may exceed them, can name its own.
inline constexpr size_t kMostBytesAside = 64 * 1024;
inline constexpr size_t kMostBytesPerRoute = 200;

struct AdversarialTable {
  std::string name;
  Family family = Family::kIpv6;
  // Sorted, distinct.
  std::vector<Route> (*make)() = nullptr;
  // What a FIB of it may hold: so much, and so much for each route.
  size_t most_bytes_aside = kMostBytesAside;
  size_t most_bytes_per_route = kMostBytesPerRoute;
};

void PrintTo(const AdversarialTable& table, std::ostream* out);

const std::vector<AdversarialTable>& AdversarialTables();

}  // namespace planb

#endif  // PLANB_LPM_TESTING_ADVERSARIAL_TABLES_H_
