#include "lpm/testing/packed_probes.h"

#include <endian.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"
#include "lpm/fib.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/probes.h"
#include "lpm/testing/reference.h"

namespace planb {

std::vector<NextHopId> AnswersByOracle(absl::Span<const Route> routes,
                                       absl::Span<const Address> addresses) {
  const Oracle oracle({routes.begin(), routes.end()});
  std::vector<NextHopId> answers;
  answers.reserve(addresses.size());
  for (const Address& address : addresses) {
    const auto route = oracle.Lookup(address);
    answers.push_back(route ? route->next_hop : kNoRoute);
  }
  return answers;
}

std::vector<NextHopId> RightAnswers(Family family,
                                    absl::Span<const Route> routes,
                                    absl::Span<const Address> addresses) {
  if (routes.size() * addresses.size() < 10'000) {
    return AnswersByOracle(routes, addresses);
  }
  return Reference(family, routes).Lookup(addresses);
}

PackedProbes::PackedProbes(Family family, std::vector<Address> addresses,
                           size_t at_least)
    : addresses_(std::move(addresses)),
      count_(addresses_.empty() ? 0 : std::max(at_least, addresses_.size())),
      packed_(count_ * static_cast<size_t>(AddressBytes(family))) {
  const auto size = static_cast<size_t>(AddressBytes(family));
  for (size_t i = 0; i < count_; ++i) {
    const Address& address = addresses_[i % addresses_.size()];
    ABSL_RAW_CHECK(address.family() == family, "a probe of another family");
    const uint64_t octets[2] = {htobe64(absl::Uint128High64(address.bits())),
                                htobe64(absl::Uint128Low64(address.bits()))};
    std::memcpy(&packed_[i * size], octets, size);
  }
}

std::string PackedProbes::Differences(
    const Fib& fib, absl::Span<const NextHopId> expected) const {
  ABSL_RAW_CHECK(expected.size() == addresses_.size(), "not as many answers");
  std::string differences;
  std::vector<uint32_t> found(count_);
  for (const Kernel* kernel : AvailableKernels()) {
    // Where a lookup writes nothing, what stays is a wrong answer.
    for (size_t i = 0; i < count_; ++i) {
      found[i] = htole32(~expected[i % expected.size()]);
    }
    fib.Lookup(packed_.data(), count_, found.data(), *kernel);
    int wrong = 0;
    for (size_t i = 0, n = 0; i < count_; ++i, ++n) {
      if (n == expected.size()) n = 0;
      if (le32toh(found[i]) == expected[n] || ++wrong > 3) continue;
      absl::StrAppend(&differences, KernelName(*kernel), ": ",
                      addresses_[n].ToString(), " (number ", i, " of ", count_,
                      ") -> ", le32toh(found[i]), ", not ", expected[n], "\n");
    }
    if (wrong > 3) absl::StrAppend(&differences, wrong, " wrong in all\n");
  }
  return differences;
}

std::string DifferencesAtBoundaries(const Fib& fib,
                                    absl::Span<const Route> routes) {
  std::vector<Address> probes = BoundaryProbes(routes);
  const Address zero = Address::FromBits(fib.family(), 0);
  probes.insert(probes.end(), {zero, PreviousAddress(zero)});
  const std::vector<NextHopId> expected =
      RightAnswers(fib.family(), routes, probes);
  return PackedProbes(fib.family(), std::move(probes))
      .Differences(fib, expected);
}

}  // namespace planb
