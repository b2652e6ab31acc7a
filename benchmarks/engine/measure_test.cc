#include "benchmarks/engine/measure.h"

#include <endian.h>
#include <gtest/gtest.h>

#include <cstring>

namespace planb {
namespace {

// Answers 7, but `wrong_at` lookups on once 8; counts what it was asked.
class Fake : public Baseline {
 public:
  explicit Fake(size_t wrong_at = SIZE_MAX, size_t work = 0)
      : wrong_at_(wrong_at), work_(work) {}

  void Lookup(const void*, size_t count, void* next_hops) const override {
    for (size_t i = 0; i < count; ++i) {
      for (size_t j = 0; j < work_; ++j) asm volatile("");
      const uint32_t wire = htole32(asked_++ == wrong_at_ ? 8 : 7);
      std::memcpy(static_cast<char*>(next_hops) + 4 * i, &wire, 4);
    }
  }
  size_t bytes() const override { return 1; }
  size_t asked() const { return asked_; }

 private:
  const size_t wrong_at_;
  const size_t work_;
  mutable size_t asked_ = 0;
};

Trace SomeTrace(size_t count) {
  return *MakeTrace(TraceKind::kUniform, Family::kIpv6, {}, count);
}

TEST(FirstWrong, FindsAnySingleWrongAnswer) {
  const Trace trace = SomeTrace(100);
  const std::vector<NextHopId> expected(100, 7);
  for (size_t batch : {1U, 7U, 100U, 128U}) {
    EXPECT_EQ(FirstWrong(Fake(), trace, expected, batch), "");
    for (size_t wrong : {0U, 50U, 99U}) {
      const std::string found = FirstWrong(Fake(wrong), trace, expected, batch);
      EXPECT_NE(found.find(trace.address(wrong).ToString()), std::string::npos)
          << found;
      EXPECT_NE(found.find("8 instead of 7"), std::string::npos) << found;
    }
  }
}

TEST(Measure, AsksAllOfTheTraceEachTime) {
  const Trace trace = SomeTrace(1000);
  const Fake a, b;
  const auto samples = Measure(
      {&a, &b}, trace,
      {.batch = 64, .repeats = 3, .segment_milliseconds = 0.01, .retries = 0});
  ASSERT_EQ(samples.size(), 2U);
  for (const auto& of_one : samples) {
    ASSERT_EQ(of_one.size(), 3U);
    for (const Sample& sample : of_one) {
      EXPECT_GT(sample.nanoseconds, 0);
      EXPECT_GT(sample.cycles, 0);
      EXPECT_GT(sample.gigahertz, 0);
    }
  }
  EXPECT_GE(a.asked(), 6000U);  // a pass to warm up and one or more timed
  EXPECT_EQ(a.asked() % 1000, 0U);
}

TEST(Measure, TellsQuickFromSlow) {
  const Trace trace = SomeTrace(1000);
  const Fake quick;
  const Fake slow(SIZE_MAX, 300);
  const auto samples = Measure({&quick, &slow}, trace,
                               {.repeats = 5, .segment_milliseconds = 1});
  std::vector<double> times[2];
  for (size_t i = 0; i < 2; ++i) {
    for (const Sample& s : samples[i]) times[i].push_back(s.nanoseconds);
  }
  EXPECT_LT(4 * Median(times[0]), Median(times[1]));
}

TEST(Median, OfOddAndEven) {
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
}

}  // namespace
}  // namespace planb
