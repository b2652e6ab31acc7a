// SPDX-License-Identifier: Apache-2.0

// What Fib::Lookup and LookupUpper touch: exactly the bytes it was given,
// wherever they lie and however many, in every kernel; and the same answer in
// every position.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lpm/fib/fib.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/guarded_memory.h"
#include "lpm/testing/hard_prefixes.h"
#include "lpm/testing/probes.h"

namespace planb {
namespace {

// A table with routes above and below /64, addresses that hit them, and what
// is right for each.
class FibBuffer : public testing::TestWithParam<Form> {
 protected:
  static constexpr size_t kAddresses = 1100;

  FibBuffer() {
    RandomRoutesOptions options;
    options.family = FamilyOf(GetParam());
    options.count = 3000;
    options.next_hops = 0x00ffffff;
    const std::vector<Route> routes = RandomRoutes(options);
    fib_ = Fib::Build(FamilyOf(GetParam()), routes).value();
    addresses_ = BoundaryProbes(routes);
    Random random(1);
    for (size_t n = addresses_.size(); n > 1; --n) {
      std::swap(addresses_[n - 1], addresses_[random.Below(n)]);
    }
    addresses_.resize(kAddresses);
    expected_ = RightAnswersAs(GetParam(), routes, addresses_);
    packed_ = PackAs(GetParam(), addresses_);
    for (NextHopId next_hop : expected_) {
      for (int i = 0; i < 4; ++i, next_hop >>= 8) {
        little_endian_.push_back(static_cast<char>(next_hop & 255));
      }
    }
  }

  size_t AddressSize() const { return BytesOf(GetParam()); }

  // Looks the first `n` addresses up, read from and written to just there.
  void ExpectRight(const Kernel& kernel, size_t n, char* in, char* out) {
    std::copy_n(packed_.begin(), n * AddressSize(), in);
    std::fill_n(out, 4 * n, '\x5a');
    LookupAs(GetParam(), *fib_, in, n, out, kernel);
    ASSERT_EQ(std::string(out, 4 * n), std::string(&little_endian_[0], 4 * n))
        << KernelName(kernel) << ", " << n << " addresses";
    ASSERT_TRUE(std::equal(in, in + n * AddressSize(), packed_.begin()))
        << "the input was changed";
  }

  std::unique_ptr<const Fib> fib_;
  std::vector<Address> addresses_;
  std::vector<NextHopId> expected_;
  std::vector<char> packed_;
  std::vector<char> little_endian_;
};

INSTANTIATE_TEST_SUITE_P(Forms, FibBuffer,
                         testing::Values(Form::kIpv4, Form::kIpv6,
                                         Form::kIpv6Upper),
                         [](const auto& param) {
                           return FormName(param.param);
                         });

std::vector<size_t> Counts() {
  std::vector<size_t> counts = {511, 512, 513, 1000, 1023, 1024, 1025, 1100};
  for (size_t n = 0; n <= 300; ++n) counts.push_back(n);
  return counts;
}

TEST_P(FibBuffer, AnyCountInExactlySizedBlocks) {
  for (const Kernel* kernel : AvailableKernels()) {
    for (const size_t n : Counts()) {
      const auto in = std::make_unique<char[]>(n * AddressSize());
      const auto out = std::make_unique<char[]>(4 * n);
      ExpectRight(*kernel, n, in.get(), out.get());
    }
  }
}

TEST_P(FibBuffer, AnyAlignmentAndNothingWrittenAround) {
  constexpr size_t kGuard = 128;
  for (const Kernel* kernel : AvailableKernels()) {
    for (const size_t n :
         {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 127, 128, 129, 1000}) {
      for (size_t shift = 0; shift < 20; ++shift) {
        std::vector<char> in(64 + n * AddressSize());
        std::vector<char> out(2 * kGuard + 64 + 4 * n, '\x7e');
        char* const begin = out.data() + kGuard + (shift * 7) % 64;
        ExpectRight(*kernel, n, in.data() + shift, begin);
        const auto untouched = [](char c) { return c == '\x7e'; };
        EXPECT_TRUE(std::all_of(out.data(), begin, untouched));
        EXPECT_TRUE(
            std::all_of(begin + 4 * n, out.data() + out.size(), untouched));
      }
    }
  }
}

TEST_P(FibBuffer, NoReadOrWriteBeyondAPage) {
  const size_t most = 4096 / AddressSize();
  const GuardedMemory in(most * AddressSize()), out(most * 4);
  for (const Kernel* kernel : AvailableKernels()) {
    for (const size_t n : Counts()) {
      if (n > std::min(most, kAddresses)) continue;
      const size_t bytes = n * AddressSize();
      ExpectRight(*kernel, n, in.AtEnd(bytes), out.AtEnd(4 * n));
      ExpectRight(*kernel, n, in.AtStart(), out.AtStart());
      ExpectRight(*kernel, n, in.AtEnd(bytes), out.AtStart());
      ExpectRight(*kernel, n, in.AtStart(), out.AtEnd(4 * n));
    }
  }
}

TEST_P(FibBuffer, CountZeroTouchesNothing) {
  for (const Kernel* kernel : AvailableKernels()) {
    LookupAs(GetParam(), *fib_, nullptr, 0, nullptr, *kernel);
  }
}

// A lane that is always wrong, or wrong beside certain neighbours, shows here.
TEST_P(FibBuffer, EveryPositionGivesTheSameAnswer) {
  constexpr size_t kBatch = 160;
  Random random(2);
  for (const Kernel* kernel : AvailableKernels()) {
    for (size_t special = 0; special < 40; ++special) {
      for (size_t position = 0; position < kBatch; ++position) {
        std::vector<Address> batch(kBatch, addresses_[random.Below(100)]);
        batch[position] = addresses_[100 + special];
        ASSERT_EQ(LookupAll(GetParam(), *fib_, batch, *kernel)[position],
                  expected_[100 + special])
            << KernelName(*kernel) << " at " << position;
      }
    }
  }
}

TEST_P(FibBuffer, ManyThreadsReadOneFib) {
  std::vector<std::thread> threads;
  std::array<size_t, 4> wrong{};
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        for (const Kernel* kernel : AvailableKernels()) {
          wrong[t] +=
              LookupAll(GetParam(), *fib_, addresses_, *kernel) != expected_;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const size_t n : wrong) EXPECT_EQ(n, 0U);
}

}  // namespace
}  // namespace planb
