#include "benchmarks/engine/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace planb {
namespace {

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
    const std::string out_path = testing::TempDir() + "/out.txt";
    const std::string csv_path = testing::TempDir() + "/out.csv";
    FILE* const out = std::fopen(out_path.c_str(), "w");
    FILE* const csv = std::fopen(csv_path.c_str(), "w");
    const absl::Status status = Compare(options, out, csv);
    std::fclose(out);
    std::fclose(csv);
    out_ = Slurp(out_path);
    csv_ = Slurp(csv_path);
    return status;
  }

  static std::string Slurp(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  bool Says(const std::string& what) const {
    return out_.find(what) != std::string::npos;
  }

  std::string out_;
  std::string csv_;
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
  // Three engines measured, two batch sizes, two repeats, and the heading.
  EXPECT_EQ(std::count(csv_.begin(), csv_.end(), '\n'), 13) << csv_;
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
  EXPECT_EQ(csv_.find("one,"), std::string::npos) << csv_;
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
