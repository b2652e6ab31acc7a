// SPDX-License-Identifier: Apache-2.0

#include "lpm/testing/fib_check.h"

#include <endian.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "lpm/fib/fib.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/probes.h"

namespace planb {

std::string FormName(Form form) {
  return std::string(FamilyName(FamilyOf(form))) +
         (form == Form::kIpv6Upper ? "Upper" : "");
}

void PrintTo(Form form, std::ostream* out) { *out << FormName(form); }

std::vector<char> PackAs(Form form, absl::Span<const Address> addresses) {
  const size_t size = BytesOf(form);
  std::vector<char> packed(addresses.size() * size);
  for (size_t i = 0; i < addresses.size(); ++i) {
    const Address& address = addresses[i];
    ABSL_RAW_CHECK(address.family() == FamilyOf(form), "of another family");
    const uint64_t bytes[2] = {htobe64(absl::Uint128High64(address.bits())),
                               htobe64(absl::Uint128Low64(address.bits()))};
    std::memcpy(&packed[i * size], bytes, size);
  }
  return packed;
}

void LookupAs(Form form, const Fib& fib, const void* packed, size_t count,
              void* next_hops, const Kernel& kernel) {
  if (form == Form::kIpv6Upper) {
    fib.LookupUpper(packed, count, next_hops, kernel);
  } else {
    fib.Lookup(packed, count, next_hops, kernel);
  }
}

std::vector<NextHopId> RightAnswersAs(Form form, absl::Span<const Route> routes,
                                      absl::Span<const Address> addresses) {
  return form == Form::kIpv6Upper
             ? RightUpperAnswers(routes, addresses)
             : RightAnswers(FamilyOf(form), routes, addresses);
}

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

std::vector<NextHopId> LookupAll(Form form, const Fib& fib,
                                 absl::Span<const Address> addresses,
                                 const Kernel& kernel) {
  const std::vector<char> packed = PackAs(form, addresses);
  // Filled with what no lookup may leave behind: tests use smaller next hops,
  // or check these values themselves.
  std::vector<uint32_t> answers(addresses.size(), htole32(0xdeadbeef));
  LookupAs(form, fib, packed.data(), addresses.size(), answers.data(), kernel);
  for (uint32_t& answer : answers) answer = le32toh(answer);
  return answers;
}

void ExpectAnswers(const Fib& fib, absl::Span<const Address> addresses,
                   absl::Span<const NextHopId> expected) {
  ASSERT_EQ(addresses.size(), expected.size());
  for (const Kernel* kernel : AvailableKernels()) {
    const std::vector<NextHopId> answers =
        LookupAll(WholeForm(fib.family()), fib, addresses, *kernel);
    if (std::equal(answers.begin(), answers.end(), expected.begin())) continue;
    size_t wrong = 0;
    for (size_t i = 0; i < answers.size(); ++i) {
      if (answers[i] == expected[i] || ++wrong > 5) continue;
      ADD_FAILURE() << KernelName(*kernel) << ": " << addresses[i].ToString()
                    << " (number " << i << " of " << answers.size() << ") -> "
                    << answers[i] << ", not " << expected[i];
    }
    ADD_FAILURE() << KernelName(*kernel) << ": " << wrong << " wrong answers";
  }
}

void ExpectLikeOracle(Family family, std::vector<Route> routes,
                      absl::Span<const Address> probes) {
  std::sort(routes.begin(), routes.end());
  const auto fib = Fib::Build(family, routes).value();
  ASSERT_EQ(fib->family(), family);
  std::vector<Address> addresses = BoundaryProbes(routes);
  addresses.insert(addresses.end(), probes.begin(), probes.end());
  const Address zero = Address::FromBits(family, 0);
  addresses.insert(addresses.end(),
                   {zero, NextAddress(zero), PreviousAddress(zero),
                    PreviousAddress(PreviousAddress(zero))});
  EXPECT_EQ(UpperDifferences(*fib, routes, addresses), "");
  const Oracle oracle(std::move(routes));
  std::vector<NextHopId> expected;
  for (const Address& address : addresses) {
    const auto route = oracle.Lookup(address);
    expected.push_back(route ? route->next_hop : kNoRoute);
    EXPECT_EQ(fib->Lookup(address), expected.back()) << address.ToString();
  }
  ExpectAnswers(*fib, addresses, expected);
}

}  // namespace planb
