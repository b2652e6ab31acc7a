#include "lpm/testing/packed_probes.h"

#include <endian.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "lpm/fib.h"
#include "lpm/testing/probes.h"

namespace planb {
namespace {

// So few halves are also looked up one by one, and several times over.
constexpr size_t kFew = 100;

}  // namespace

PackedProbes::PackedProbes(Form form, std::vector<Address> addresses,
                           size_t at_least)
    : form_(form),
      addresses_(std::move(addresses)),
      count_(addresses_.empty() ? 0 : std::max(at_least, addresses_.size())),
      packed_(count_ * BytesOf(form)) {
  const std::vector<char> once = PackAs(form, addresses_);
  for (size_t at = 0, n = 0; at < packed_.size(); at += n) {
    n = std::min(once.size(), packed_.size() - at);
    std::copy_n(once.begin(), n, packed_.begin() + static_cast<ptrdiff_t>(at));
  }
}

std::string PackedProbes::Differences(const Fib& fib,
                                      absl::Span<const NextHopId> expected,
                                      size_t batch) const {
  ABSL_RAW_CHECK(expected.size() == addresses_.size(), "not as many answers");
  std::string differences;
  std::vector<uint32_t> found(count_);
  for (const Kernel* kernel : AvailableKernels()) {
    // Where a lookup writes nothing, what stays is a wrong answer.
    for (size_t i = 0, n = 0; i < count_; ++i, ++n) {
      if (n == expected.size()) n = 0;
      found[i] = htole32(~expected[n]);
    }
    for (size_t i = 0, n = 0; i < count_; i += n) {
      n = std::min(batch, count_ - i);
      LookupAs(form_, fib, packed_.data() + i * BytesOf(form_), n,
               found.data() + i, *kernel);
    }
    int wrong = 0;
    for (size_t i = 0, n = 0; i < count_; ++i, ++n) {
      if (n == expected.size()) n = 0;
      if (le32toh(found[i]) == expected[n] || ++wrong > 3) continue;
      absl::StrAppend(&differences, KernelName(*kernel), ": ", FormName(form_),
                      " ", addresses_[n].ToString(), " (number ", i, " of ",
                      count_, ") -> ", le32toh(found[i]), ", not ", expected[n],
                      "\n");
    }
    if (wrong > 3) absl::StrAppend(&differences, wrong, " wrong in all\n");
  }
  return differences;
}

std::string UpperDifferences(const Fib& fib, absl::Span<const Route> routes,
                             absl::Span<const Address> addresses) {
  if (fib.family() != Family::kIpv6) return "";
  // Once each half, where neighbours have the same.
  std::vector<Address> halves;
  for (const Address& address : addresses) {
    if (halves.empty() || absl::Uint128High64(halves.back().bits()) !=
                              absl::Uint128High64(address.bits())) {
      halves.push_back(address);
    }
  }
  const std::vector<NextHopId> expected = RightUpperAnswers(routes, halves);
  const bool few = halves.size() <= kFew;
  const PackedProbes probes(Form::kIpv6Upper, std::move(halves),
                            few ? 3 * kFew / 2 : 0);
  std::string differences = probes.Differences(fib, expected);
  if (few) {
    absl::StrAppend(&differences, probes.Differences(fib, expected, 1));
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
  const std::string differences = UpperDifferences(fib, routes, probes);
  return differences + PackedProbes(fib.family(), std::move(probes))
                           .Differences(fib, expected);
}

}  // namespace planb
