// SPDX-License-Identifier: Apache-2.0

// What Fib::Lookup and LookupUpper touch: exactly the bytes they were given,
// wherever they lie and however many, in every kernel; and the same answer in
// every position. Large batches and every alignment between forbidden pages.
// Input is read in place, in network byte order, from read-only memory.

#include <endian.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "lpm/fib/fib.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

// A block between two forbidden pages. Owns its pages. Thread-compatible.
class GuardedMemory {
 public:
  // Room for `most` bytes, rounded up to pages, with a forbidden page before
  // and one after.
  explicit GuardedMemory(size_t most)
      : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))),
        size_((most + page_ - 1) / page_ * page_) {
    void* const all = mmap(nullptr, size_ + 2 * page_, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ABSL_RAW_CHECK(all != MAP_FAILED, "no memory");
    begin_ = static_cast<char*>(all) + page_;
    ABSL_RAW_CHECK(
        size_ == 0 || mprotect(begin_, size_, PROT_READ | PROT_WRITE) == 0,
        "cannot open the pages");
  }
  ~GuardedMemory() { munmap(begin_ - page_, size_ + 2 * page_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  // Where `n` bytes begin so that they start right after the forbidden page,
  // or end right before the other. REQUIRES: n <= most.
  char* AtStart() const { return begin_; }
  char* AtEnd(size_t n) const { return begin_ + size_ - n; }

  // From now on the bytes can only be read.
  void ForbidWriting() const {
    ABSL_RAW_CHECK(mprotect(begin_, size_, PROT_READ) == 0,
                   "cannot close the pages");
  }

 private:
  const size_t page_;
  const size_t size_;
  char* begin_;
};

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

// The input may lie on a page that cannot be written.
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
