// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/engine/comparison.h"

#include <endian.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "benchmarks/engine/machine.h"
#include "benchmarks/rivals/baseline_check.h"
#include "lpm/synthetic/synthetic.h"

namespace planb {
namespace {

TEST(Engines, AnswerExactly) {
  const std::vector<Route> ipv6 = SyntheticTable({.ipv6_routes = 5000});
  const std::vector<Route> ipv4 =
      SyntheticTable({.ipv6_routes = 0, .ipv4_routes = 5000});
  for (const char* name :
       {"planb", "planb:scalar", "planb:lengths", "planb:scalar:lengths",
        "paper", "paper:merged", "paper:distinct", "paper:scalar", "dir24",
        "dir24:scalar", "reference:drop:scalar"}) {
    SCOPED_TRACE(name);
    const auto engine = MakeEngine(name);
    ASSERT_TRUE(engine.ok()) << engine.status();
    EXPECT_EQ(engine->name, name);
    const bool v4 = engine->name.substr(0, 5) == "dir24";
    std::vector<Route> routes = v4 ? ipv4 : ipv6;
    std::erase_if(routes, [&](const Route& r) {
      return r.prefix.length() > engine->max_length;
    });
    ExpectLikeReference(engine->build, v4 ? Family::kIpv4 : Family::kIpv6,
                        routes);
  }
}

TEST(Engines, OnlyDropLeavesRoutesOut) {
  EXPECT_EQ(MakeEngine("reference")->max_length, 128);
  EXPECT_EQ(MakeEngine("reference:drop")->max_length, 64);
}

TEST(Engines, NamesThatMeanNothing) {
  for (const char* name :
       {"", "fast", "planb:sse9", "planb:avx2:avx2", "planb:lengths:fast",
        "paper:5", "paper:sse9", "reference:merged", "dir24:drop"}) {
    EXPECT_EQ(MakeEngine(name).status().code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
}

TEST(Engines, CanBeAdded) {
  const auto factory = [](const std::vector<std::string>& options) {
    Engine engine;
    engine.max_length = static_cast<int>(options.size());
    return absl::StatusOr<Engine>(engine);
  };
  EXPECT_TRUE(RegisterEngine("mine", factory));
  EXPECT_EQ(MakeEngine("mine:a:b")->max_length, 2);
}

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

class AlwaysOne : public Baseline {
  void Lookup(const void*, size_t count, void* next_hops) const override {
    std::fill_n(static_cast<uint8_t*>(next_hops), 4 * count, 1);
  }
  size_t bytes() const override { return 4; }
};

Engine Wrong() {
  Engine engine;
  engine.name = "one";
  engine.build = [](Family, absl::Span<const Route>) {
    return absl::StatusOr<std::unique_ptr<const Baseline>>(
        std::make_unique<AlwaysOne>());
  };
  return engine;
}

class ComparisonTest : public testing::Test {
 protected:
  // Small, quick, and with all kinds of outcome.
  static ComparisonOptions Options() {
    ComparisonOptions options;
    options.tables = {"20000"};
    options.engines = {*MakeEngine("planb"), *MakeEngine("paper"),
                       *MakeEngine("reference"), *MakeEngine("reference:drop"),
                       *MakeEngine("dir24")};
    options.traces = {TraceKind::kMatch};
    options.batches = {1, 4096};
    options.repeats = 2;
    options.segment_milliseconds = 0.01;
    options.addresses = 5000;
    return options;
  }

  absl::Status Run(const ComparisonOptions& options) {
    const std::string path = testing::TempDir() + "/out.txt";
    FILE* const out = std::fopen(path.c_str(), "w");
    const absl::Status status = Compare(options, out);
    std::fclose(out);
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    out_ = text.str();
    return status;
  }

  bool Says(const std::string& what) const {
    return out_.find(what) != std::string::npos;
  }

  // Engines that were measured, each time that they were.
  int Measured() const {
    int rows = 0;
    for (size_t at = 0; (at = out_.find("rate_mps", at)) != out_.npos; ++at) {
      ++rows;
    }
    return rows;
  }

  std::string out_;
};

TEST_F(ComparisonTest, MeasuresAndSaysWhoRefuses) {
  EXPECT_TRUE(Run(Options()).ok());
  EXPECT_TRUE(
      Says("20000: 20000 routes, next hops as-given; trace match, "
           "batches of 4096"))
      << out_;
  EXPECT_TRUE(Says("refuses: up to /64 only")) << out_;
  EXPECT_TRUE(Says("refuses: IPv4 only")) << out_;
  EXPECT_TRUE(Says("without ")) << out_;
  // Three engines measured, two batch sizes.
  EXPECT_EQ(Measured(), 6) << out_;
}

TEST_F(ComparisonTest, EachMeasurementHasItsFigures) {
  using What = ComparisonOptions::What;
  const std::map<What, std::vector<std::string>> wanted = {
      {What::kRate, {"rate_mps"}},
      {What::kThreads, {"rate_mps"}},
      {What::kSingle, {"dependent_ns", "alone_p50_ns", "alone_p99_ns"}},
      {What::kMemory, {"bytes_per_route", "build_ms"}},
      {What::kUpdates, {"update1_p50_us", "update100_max_us"}},
      {What::kCovers, {"cover0_p50_us", "cover12_max_us"}}};
  for (const auto& [what, metrics] : wanted) {
    ComparisonOptions options = Options();
    options.what = what;
    options.addresses = 4096;
    options.engines = {*MakeEngine("planb"), *MakeEngine("dir24")};
    options.csv = absl::StrCat(testing::TempDir(), "/figures.csv");
    std::remove(options.csv.c_str());
    EXPECT_TRUE(Run(options).ok()) << out_;
    std::ifstream file(options.csv);
    std::stringstream text;
    text << file.rdbuf();
    for (const std::string& metric : metrics) {
      EXPECT_NE(text.str().find(absl::StrCat(",planb,", metric, ",")),
                std::string::npos)
          << metric << text.str();
    }
    // It refuses IPv6, and that is said.
    EXPECT_NE(text.str().find(",dir24,none,,,,refuses: IPv4 only"),
              std::string::npos)
        << text.str();
  }
}

TEST_F(ComparisonTest, UpdatesLeadToTheSameAnswers) {
  const auto engine = MakeEngine("planb");
  const std::vector<Route> before = SyntheticTable({.ipv6_routes = 5000});
  const auto changes = *MakeChurn(before, 2000);
  const auto baseline = engine->updatable(Family::kIpv6, before);
  RouteSet after(Family::kIpv6, before);
  for (const Route& change : changes) {
    ApplyChange(change, after);
    ASSERT_TRUE(baseline->Update({&change, 1}).ok());
  }
  const std::vector<Route> routes(after.begin(), after.end());
  const auto anew = engine->build(Family::kIpv6, routes);
  const Trace trace =
      *MakeTrace(TraceKind::kMatch, Family::kIpv6, routes, 4096);
  std::vector<NextHopId> expected(trace.size());
  (*anew)->Lookup(trace.at(0), trace.size(), expected.data());
  EXPECT_EQ(FirstWrong(*baseline, trace, expected, 256), "");
}

TEST_F(ComparisonTest, MayNotLeaveOutMuch) {
  ComparisonOptions options = Options();
  options.tables = {"20000+long5"};
  options.engines = {*MakeEngine("planb"), *MakeEngine("reference:drop")};
  EXPECT_TRUE(Run(options).ok());
  EXPECT_TRUE(Says("refuses: would be without ")) << out_;
}

TEST_F(ComparisonTest, WrongAnswersAreAnError) {
  ComparisonOptions options = Options();
  options.engines = {*MakeEngine("planb"), Wrong()};
  EXPECT_EQ(Run(options).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(Says("WRONG: ")) << out_;
  EXPECT_EQ(Measured(), 2) << out_;  // the other engine
}

TEST_F(ComparisonTest, TracesThatATableDoesNotHave) {
  ComparisonOptions options = Options();
  options.tables = {"ipv4:3000"};
  options.traces = {TraceKind::kLong};
  EXPECT_TRUE(Run(options).ok());
  EXPECT_TRUE(Says("no route to make a trace of kind \"long\"")) << out_;
}

TEST_F(ComparisonTest, BadNamesAreErrors) {
  ComparisonOptions options = Options();
  options.tables = {"fast"};
  EXPECT_EQ(Run(options).code(), absl::StatusCode::kInvalidArgument);
  options = Options();
  options.next_hops = "best";
  EXPECT_EQ(Run(options).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace planb
