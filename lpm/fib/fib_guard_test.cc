// SPDX-License-Identifier: Apache-2.0

// Large batches and every alignment between forbidden pages: what
// fib_buffer_test.cc does for a page and for some shifts, for all. Input is
// read in place, in network byte order, from read-only memory.

#include <endian.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "lpm/fib/fib.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/guarded_memory.h"
#include "lpm/testing/hard_prefixes.h"
#include "lpm/testing/probes.h"

namespace planb {
namespace {

constexpr size_t kMost = 1 << 20;

// A table with routes of all lengths, and a million addresses in it.
class FibGuard : public testing::TestWithParam<Form> {
 protected:
  FibGuard() : in_(kMost * AddressSize()), out_(4 * kMost) {
    std::vector<Route> routes;
    for (const Prefix& prefix : HardPrefixes(FamilyOf(GetParam()), 3000, 1)) {
      routes.push_back(
          {prefix, static_cast<NextHopId>(1 + routes.size() % 1000)});
    }
    fib_ = Fib::Build(FamilyOf(GetParam()), routes).value();
    // Probed again and again, in an order that is never the same.
    std::vector<Address> probes = BoundaryProbes(routes);
    const std::vector<NextHopId> right =
        RightAnswersAs(GetParam(), routes, probes);
    const std::vector<char> packed = PackAs(GetParam(), probes);
    Random random(1);
    packed_.resize(kMost * AddressSize());
    expected_.resize(kMost);
    for (size_t i = 0; i < kMost; ++i) {
      const size_t n = random.Below(probes.size());
      std::memcpy(&packed_[i * AddressSize()], &packed[n * AddressSize()],
                  AddressSize());
      expected_[i] = htole32(right[n]);
    }
  }

  size_t AddressSize() const { return BytesOf(GetParam()); }

  // Looks `n` addresses up, from the `first` on, read from `in` and written to
  // `out`.
  void ExpectRight(const Kernel& kernel, size_t first, size_t n, char* in,
                   char* out) {
    const size_t bytes = n * AddressSize();
    std::memcpy(in, &packed_[first * AddressSize()], bytes);
    std::memset(out, 0x5a, 4 * n);
    LookupAs(GetParam(), *fib_, in, n, out, kernel);
    ASSERT_EQ(std::memcmp(out, &expected_[first], 4 * n), 0)
        << KernelName(kernel) << ", " << n << " addresses";
    ASSERT_EQ(std::memcmp(in, &packed_[first * AddressSize()], bytes), 0)
        << "the input was changed";
  }

  const GuardedMemory in_, out_;
  std::unique_ptr<const Fib> fib_;
  std::vector<char> packed_;
  std::vector<uint32_t> expected_;
};

INSTANTIATE_TEST_SUITE_P(Forms, FibGuard,
                         testing::Values(Form::kIpv4, Form::kIpv6,
                                         Form::kIpv6Upper),
                         [](const auto& param) {
                           return FormName(param.param);
                         });

TEST_P(FibGuard, CountsBetweenForbiddenPages) {
  std::vector<size_t> counts;
  for (size_t n = 1; n <= 300; ++n) counts.push_back(n);
  for (const size_t around : {512, 1024, 4096, 8192, 65536}) {
    for (size_t n = around - 17; n <= around + 17; ++n) counts.push_back(n);
  }
  for (const Kernel* kernel : AvailableKernels()) {
    for (const size_t n : counts) {
      const size_t bytes = n * AddressSize();
      ExpectRight(*kernel, 5 * n, n, in_.AtEnd(bytes), out_.AtEnd(4 * n));
      ExpectRight(*kernel, 7 * n, n, in_.AtStart(), out_.AtStart());
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(FibGuard, AMillion) {
  for (const Kernel* kernel : AvailableKernels()) {
    for (const size_t n : {kMost, kMost - 1, kMost - 129}) {
      const size_t bytes = n * AddressSize();
      ExpectRight(*kernel, 0, n, in_.AtEnd(bytes), out_.AtEnd(4 * n));
      ExpectRight(*kernel, kMost - n, n, in_.AtStart(), out_.AtStart());
      if (HasFatalFailure()) return;
    }
  }
}

// Input and output at each offset from a cache line, seen from both pages.
TEST_P(FibGuard, EveryAlignment) {
  for (const Kernel* kernel : AvailableKernels()) {
    for (size_t in = 0; in < 64; ++in) {
      for (size_t out = 0; out < 64; ++out) {
        for (const size_t n : {size_t{1}, 16 + (in + out) % 17, size_t{131}}) {
          const size_t bytes = n * AddressSize();
          ExpectRight(*kernel, in * 64 + out, n, in_.AtStart() + in,
                      out_.AtStart() + out);
          ExpectRight(*kernel, in * 64 + out, n, in_.AtEnd(bytes + in),
                      out_.AtEnd(4 * n + out));
          if (HasFatalFailure()) FAIL() << "offsets " << in << ", " << out;
        }
      }
    }
  }
}

// Nothing beyond the answers is written, also where it could be.
TEST_P(FibGuard, NothingIsWrittenAround) {
  constexpr size_t kAround = 256;
  for (const Kernel* kernel : AvailableKernels()) {
    for (size_t n = 0; n <= 300; ++n) {
      std::memset(out_.AtStart(), 0x7e, 2 * kAround + 4 * n);
      LookupAs(GetParam(), *fib_, packed_.data(), n, out_.AtStart() + kAround,
               *kernel);
      const auto untouched = [](char c) { return c == 0x7e; };
      const char* const begin = out_.AtStart() + kAround;
      ASSERT_TRUE(std::all_of(begin - kAround, begin, untouched)) << n;
      ASSERT_TRUE(
          std::all_of(begin + 4 * n, begin + 4 * n + kAround, untouched))
          << n;
      ASSERT_EQ(std::memcmp(begin, expected_.data(), 4 * n), 0);
    }
  }
}

// The input may be somebody else's: a page that cannot be written.
TEST_P(FibGuard, ReadOnlyInput) {
  const size_t bytes = 4096 * AddressSize();
  const GuardedMemory in(bytes);
  std::memcpy(in.AtEnd(bytes), packed_.data(), bytes);
  in.ForbidWriting();
  std::vector<uint32_t> found(4096);
  for (const Kernel* kernel : AvailableKernels()) {
    LookupAs(GetParam(), *fib_, in.AtEnd(bytes), found.size(), found.data(),
             *kernel);
    EXPECT_EQ(std::memcmp(found.data(), expected_.data(), 4 * 4096), 0);
  }
}

}  // namespace
}  // namespace planb
