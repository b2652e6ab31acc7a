#include "lpm/fib.h"

#include <endian.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "lpm/interval.h"
#include "lpm/kernel_table.h"

namespace planb {

std::unique_ptr<const Fib> Fib::Build(Family family,
                                      absl::Span<const Route> routes) {
  ABSL_RAW_CHECK(routes.empty() || (routes.front().prefix.family() == family &&
                                    routes.back().prefix.family() == family),
                 "routes of another family");
  const std::vector<Interval> intervals = ElementaryIntervals(routes);
  return std::unique_ptr<const Fib>(
      new Fib(family, Tree::Build(intervals), intervals.size()));
}

void Fib::Lookup(const void* addresses, size_t count, void* next_hops,
                 const Kernel& kernel) const {
  kernel.lookup(tree_.view(), family_, addresses, count, next_hops);
}

NextHopId Fib::Lookup(const Address& address, const Kernel& kernel) const {
  ABSL_RAW_CHECK(address.family() == family_, "address of another family");
  NextHopId next_hop;
  Lookup(address.ToPacked().data(), 1, &next_hop, kernel);
  return le32toh(next_hop);
}

size_t Fib::bytes() const { return sizeof(*this) + tree_.bytes(); }

}  // namespace planb
