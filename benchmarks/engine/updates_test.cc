#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "benchmarks/engine/change_times.h"
#include "benchmarks/engine/compile_times.h"
#include "benchmarks/engine/lookups_beside.h"
#include "lpm/synthetic/synthetic.h"

namespace planb {
namespace {

// A report to files that can be read back.
class UpdatesTest : public testing::Test {
 protected:
  using File = std::unique_ptr<FILE, int (*)(FILE*)>;

  static std::string Read(FILE* file) {
    std::string text;
    std::rewind(file);
    for (int c; (c = std::fgetc(file)) != EOF;) {
      text += static_cast<char>(c);
    }
    return text;
  }
  std::string out() const { return Read(out_.get()); }

  // Raw lines that begin with `start`.
  int RawLines(const std::string& start) const {
    int count = 0;
    for (const absl::string_view line :
         absl::StrSplit(Read(csv_.get()), '\n')) {
      count += absl::StartsWith(line, start);
    }
    return count;
  }

  const Table table_ = {.name = "t",
                        .routes = SyntheticTable({.ipv6_routes = 3000})};
  const ChangeOptions options_ = {.warm_up = 20,
                                  .changes = 300,
                                  .batch_sizes = {10, 300},
                                  .batches = 5,
                                  .rounds = 2};
  File out_{std::tmpfile(), std::fclose};
  File csv_{std::tmpfile(), std::fclose};
  UpdateReport report_{out_.get(), csv_.get()};
};

TEST_F(UpdatesTest, OneRouteChanges) {
  MeasureOneRouteChanges(table_, options_, report_);
  for (const char* kind : {"mixed", "covering", "long"}) {
    EXPECT_EQ(RawLines(absl::StrCat("changes,t,", kind, ",")), 3 * 300);
  }
  EXPECT_EQ(RawLines("changes,t,mixed,299,"), 3);
  EXPECT_TRUE(report_.all_right()) << out();
}

TEST_F(UpdatesTest, Batches) {
  MeasureBatches(table_, options_, report_);
  EXPECT_EQ(RawLines("batches,t,batch of 10,"), 3 * 5);
  EXPECT_EQ(RawLines("batches,t,batch of 300,"), 3 * 5);
  EXPECT_TRUE(report_.all_right()) << out();
}

TEST_F(UpdatesTest, ShortPrefixes) {
  MeasureShortPrefixes(table_, options_, report_);
  EXPECT_EQ(RawLines("short,t,::/0,"), 3 * 2 * 3);
  EXPECT_EQ(RawLines("short,t,2a00::/12,"), 3 * 2 * 3);
  EXPECT_TRUE(report_.all_right()) << out();
}

TEST_F(UpdatesTest, Compile) {
  MeasureCompile(table_, {.repeats = 3}, report_);
  EXPECT_EQ(RawLines("compile,t,Compile,0,cold_ms,"), 1);
  EXPECT_EQ(RawLines("compile,t,Build,3,warm_ms,"), 1);
  EXPECT_EQ(RawLines("compile"), 8);
  EXPECT_TRUE(report_.all_right()) << out();
}

TEST_F(UpdatesTest, LookupsBeside) {
  const absl::Status status = MeasureLookupsBeside(table_,
                                                   {.reader_cpu = -1,
                                                    .writer_cpu = -1,
                                                    .addresses = 5000,
                                                    .repeats = 2,
                                                    .segment_milliseconds = 5,
                                                    .retries = 0,
                                                    .changes = 250},
                                                   report_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(RawLines("beside,t,idle,"), 4 * 2);
  EXPECT_EQ(RawLines("beside,t,most by 100,"), 4 * 2);
  EXPECT_TRUE(report_.all_right()) << out();
}

TEST_F(UpdatesTest, SaysWhatIsWrong) {
  const auto fib = Fib::Build(table_.family, table_.routes);
  RouteSet routes(table_.family, table_.routes);
  report_.Check(*fib, routes);
  EXPECT_TRUE(report_.all_right());
  routes.Announce(Prefix::Parse("3fff:1234::/48").value(), 77);
  report_.Check(*fib, routes);
  report_.Check(*fib, RouteSet(table_.family, table_.routes));
  EXPECT_FALSE(report_.all_right());
  EXPECT_TRUE(absl::StrContains(out(), "instead of 77")) << out();
}

}  // namespace
}  // namespace planb
