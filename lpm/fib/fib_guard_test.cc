// SPDX-License-Identifier: Apache-2.0

// Fib::Lookup, LookupUpper and LookupWithLengths touch exactly the bytes they
// are given, in every kernel, for any count and alignment, and find the same
// answer in every position. The buffers lie between forbidden pages.

#include <endian.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
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

constexpr size_t kMost = kSanitized ? 1 << 17 : 1 << 20;

// A table with routes of all lengths, and many addresses in it. The next
// hops are small ids, which values hold themselves, or large ones in a list.
class FibGuard : public testing::TestWithParam<std::tuple<Form, bool>> {
 protected:
  FibGuard() : in_(kMost * AddressSize()), out_(4 * kMost) {
    std::vector<Route> routes;
    for (const Prefix& prefix : HardPrefixes(FamilyOf(form()), 3000, 1)) {
      const auto i = static_cast<NextHopId>(routes.size());
      routes.push_back({prefix, std::get<1>(GetParam()) ? kUndecided - 1 - i
                                                        : 1 + i % 1000});
    }
    fib_ = Fib::Build(FamilyOf(form()), routes, OptionsOf(form())).value();
    probes_ = BoundaryProbes(routes);
    right_ = RightAnswersAs(form(), routes, probes_);
    const std::vector<char> packed = PackAs(form(), probes_);
    Random random(1);
    packed_.resize(kMost * AddressSize());
    expected_.resize(kMost);
    for (size_t i = 0; i < kMost; ++i) {
      const size_t n = random.Below(probes_.size());
      std::memcpy(&packed_[i * AddressSize()], &packed[n * AddressSize()],
                  AddressSize());
      expected_[i] = htole32(right_[n]);
    }
  }

  static Form form() { return std::get<0>(GetParam()); }
  static size_t AddressSize() { return BytesOf(form()); }

  // Looks up `n` addresses, from number `first` on, read from `in` and written
  // to `out`.
  void ExpectRight(const Kernel& kernel, size_t first, size_t n, char* in,
                   char* out) {
    const size_t bytes = n * AddressSize();
    std::memcpy(in, &packed_[first * AddressSize()], bytes);
    std::memset(out, 0x5a, 4 * n);
    LookupAs(form(), *fib_, in, n, out, kernel);
    ASSERT_EQ(std::memcmp(out, &expected_[first], 4 * n), 0)
        << KernelName(kernel) << ", " << n << " addresses";
    ASSERT_EQ(std::memcmp(in, &packed_[first * AddressSize()], bytes), 0)
        << "the input was changed";
  }

  const GuardedMemory in_, out_;
  std::unique_ptr<const Fib> fib_;
  std::vector<Address> probes_;
  std::vector<NextHopId> right_;
  // Probes drawn at random, and the answers, as they lie in memory.
  std::vector<char> packed_;
  std::vector<uint32_t> expected_;
};

INSTANTIATE_TEST_SUITE_P(
    Forms, FibGuard,
    testing::Combine(testing::Values(Form::kIpv4, Form::kIpv6, Form::kIpv6Upper,
                                     Form::kIpv4Lengths, Form::kIpv6Lengths),
                     testing::Bool()),
    [](const auto& param) {
      return FormName(std::get<0>(param.param)) +
             (std::get<1>(param.param) ? "WideNextHops" : "");
    });

TEST_P(FibGuard, CountsBetweenForbiddenPages) {
  std::vector<size_t> counts;
  for (size_t n = 1; n <= 300; n += kSanitized && n > 100 ? 7 : 1) {
    counts.push_back(n);
  }
  constexpr size_t kAside = kSanitized ? 1 : 17;
  for (const size_t around : {128, 256, 512, 1024, 4096, 8192, 65536}) {
    for (size_t n = around - kAside; n <= around + kAside; ++n) {
      counts.push_back(n);
    }
  }
  for (const size_t n : {kMost, kMost - 1, kMost - 129}) counts.push_back(n);
  for (const Kernel* kernel : AvailableKernels()) {
    for (const size_t n : counts) {
      const size_t bytes = n * AddressSize();
      const size_t first = std::min(5 * n, kMost - n);
      ExpectRight(*kernel, first, n, in_.AtEnd(bytes), out_.AtEnd(4 * n));
      ExpectRight(*kernel, kMost - n, n, in_.AtStart(), out_.AtStart());
      if (HasFatalFailure()) return;
    }
    // A count of zero touches nothing.
    LookupAs(form(), *fib_, nullptr, 0, nullptr, *kernel);
  }
}

// Input and output at each offset from a cache line, seen from both pages. With
// a sanitizer, which sees the same instructions at each, fewer pairs of them.
TEST_P(FibGuard, EveryAlignment) {
  constexpr size_t kApart = kSanitized ? 27 : 1;
  for (const Kernel* kernel : AvailableKernels()) {
    for (size_t in = 0; in < 64; ++in) {
      for (size_t out = in % kApart; out < 64; out += kApart) {
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
      LookupAs(form(), *fib_, packed_.data(), n, out_.AtStart() + kAround,
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

// The lengths, seen from both pages and at each offset.
TEST_P(FibGuard, LengthsBetweenForbiddenPages) {
  if (!HasLengths(form())) GTEST_SKIP() << "no lengths";
  constexpr size_t kAround = 64;
  const GuardedMemory lengths(3 * kAround + 8192);
  std::vector<uint32_t> found(8192);
  const auto expect_right = [&](const Kernel& kernel, size_t n, char* to) {
    const size_t first = 5 * n;
    fib_->LookupWithLengths(&packed_[first * AddressSize()], n, found.data(),
                            to, kernel);
    for (size_t i = 0; i < n; ++i) {
      const auto length = static_cast<uint8_t>(to[i]);
      ASSERT_EQ(WithLength(le32toh(found[i]), length),
                le32toh(expected_[first + i]))
          << KernelName(kernel) << ", number " << i << " of " << n;
    }
  };
  for (const Kernel* kernel : AvailableKernels()) {
    for (size_t n = 0; n <= 300; ++n) {
      expect_right(*kernel, n, lengths.AtEnd(n));
      expect_right(*kernel, n, lengths.AtStart());
      std::memset(lengths.AtStart(), 0x7e, 3 * kAround + n);
      expect_right(*kernel, n, lengths.AtStart() + kAround + n % kAround);
      const auto untouched = [](char c) { return c == 0x7e; };
      const char* const begin = lengths.AtStart() + kAround + n % kAround;
      ASSERT_TRUE(std::all_of(begin - kAround, begin, untouched)) << n;
      ASSERT_TRUE(std::all_of(begin + n, begin + n + kAround, untouched)) << n;
    }
    expect_right(*kernel, found.size(), lengths.AtEnd(found.size()));
    if (HasFatalFailure()) return;
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
    LookupAs(form(), *fib_, in.AtEnd(bytes), found.size(), found.data(),
             *kernel);
    EXPECT_EQ(std::memcmp(found.data(), expected_.data(), 4 * 4096), 0);
  }
}

// A lane that is always wrong, or wrong beside certain neighbours, shows here.
TEST_P(FibGuard, EveryPositionGivesTheSameAnswer) {
  constexpr size_t kBatch = 160;
  Random random(2);
  for (const Kernel* kernel : AvailableKernels()) {
    for (int special = 0; special < (kSanitized ? 4 : 40); ++special) {
      const size_t asked = random.Below(probes_.size());
      for (size_t position = 0; position < kBatch; ++position) {
        std::vector<Address> batch(kBatch,
                                   probes_[random.Below(probes_.size())]);
        batch[position] = probes_[asked];
        uint32_t found[kBatch];
        LookupAs(form(), *fib_, PackAs(form(), batch).data(), kBatch, found,
                 *kernel);
        ASSERT_EQ(le32toh(found[position]), right_[asked])
            << KernelName(*kernel) << " at " << position;
      }
    }
  }
}

}  // namespace
}  // namespace planb
