// SPDX-License-Identifier: Apache-2.0

// What each command prints in each form is what testdata/output.txt says: names
// and values of JSON, columns of CSV, lines of text. What is measured is "#".

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/testing/planbctl_fixture.h"
#include "client/testing/real_server_fixture.h"
#include "planb/v1/route_table.grpc.pb.h"

namespace planb::client {
namespace {

using google::protobuf::TextFormat;
using google::protobuf::Value;
using ::testing::AllOf;
using testing::Do;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Scratch;
using testing::Write;

// Each field has another value.
constexpr char kTable[] = R"(
  name: "default" accepted_generation: 12345678 visible_generation: 12345676
  persisted_generation: 12345675 routes_v6: 240001 routes_v4: 950002
  next_hops: 703 digest: "\x01\x23\x45\x67\x89\xab\xcd\xef0123\x00\x00\xff\x7f"
  fib_bytes: 31457280 retired_fib_bytes: 12 rib_bytes: 2560 kernel: "avx2"
  available_kernels: "avx2" available_kernels: "scalar"
  last_build_nanos: 123456789 last_build_unix_nanos: 1700000000123456000
  last_build_error: "out of memory" store: "sqlite"
  length_counts { v6: true length: 32 routes: 27011 }
  length_counts { v6: true length: 128 routes: 5 }
  length_counts { v6: false length: 24 routes: 600000 }
  intervals_v6: 480016 intervals_v4: 1900017 max_routes: 5000018 groups: 19
  writer_epoch: 20 store_path: "/var/lib/planb/routes.db"
  oldest_watch_generation: 12340021 incremental_builds: 22 full_builds: 23
  failed_builds: 24 history_bytes: 26214400 memory_limit_bytes: 4294967296
  memory_bound_bytes: 734003200 store_sync: "full" prefix_lengths: true
  complete_since_unix_nanos: 1700000001234567000)";

constexpr char kEmptyTable[] = R"(
  name: "empty" digest: "\000\000\000\000\000\000\000\000" kernel: "scalar"
  store: "none")";

// Answers of fixed contents.
class TableService : public v1::RouteTable::Service {
 public:
  TableService() {
    TextFormat::ParseFromString(R"(
        replicas { name: "a" version: "0.9.0" self: true
                   tables { table: "default" generation: 12345676 } }
        replicas { name: "b" version: "0.8.0"
                   tables { table: "default" generation: 12345670 } })",
                                &replicas_);
    for (v1::Replica& replica : *replicas_.mutable_replicas()) {
      replica.set_reported_unix_nanos(static_cast<uint64_t>(
          absl::ToUnixNanos(absl::Now() - absl::Hours(1))));
    }
  }

  void SetReplicas(const v1::ListReplicasResponse& replicas) {
    replicas_ = replicas;
  }

 private:
  grpc::Status GetTable(grpc::ServerContext*,
                        const v1::GetTableRequest* request,
                        v1::Table* table) override {
    TextFormat::ParseFromString(
        request->table() == "empty" ? kEmptyTable : kTable, table);
    return grpc::Status::OK;
  }
  grpc::Status ListTables(grpc::ServerContext*, const v1::ListTablesRequest*,
                          v1::ListTablesResponse* tables) override {
    TextFormat::ParseFromString(kTable, tables->add_tables());
    TextFormat::ParseFromString(kEmptyTable, tables->add_tables());
    return grpc::Status::OK;
  }
  grpc::Status CreateTable(grpc::ServerContext*, const v1::CreateTableRequest*,
                           v1::Table* table) override {
    TextFormat::ParseFromString(kTable, table);
    return grpc::Status::OK;
  }
  grpc::Status ListReplicas(grpc::ServerContext*,
                            const v1::ListReplicasRequest*,
                            v1::ListReplicasResponse* replicas) override {
    *replicas = replicas_;
    return grpc::Status::OK;
  }
  grpc::Status Reload(grpc::ServerContext*, const v1::ReloadRequest*,
                      v1::ReloadResponse* response) override {
    response->add_need_restart("max_routes");
    response->add_need_restart("store");
    return grpc::Status::OK;
  }

  v1::ListReplicasResponse replicas_;
};

// JSON with names in the order of the alphabet, which is no promise.
std::string Sorted(const Value& value) {
  std::string text;
  if (value.has_struct_value()) {
    std::map<std::string, std::string> fields;
    for (const auto& [name, field] : value.struct_value().fields()) {
      fields[absl::StrCat("\"", name, "\"")] = Sorted(field);
    }
    return absl::StrCat(
        "{", absl::StrJoin(fields, ",", absl::PairFormatter(":")), "}");
  }
  if (value.has_list_value()) {
    std::vector<std::string> values;
    for (const Value& each : value.list_value().values()) {
      values.push_back(Sorted(each));
    }
    return absl::StrCat("[", absl::StrJoin(values, ","), "]");
  }
  EXPECT_TRUE(google::protobuf::util::MessageToJsonString(value, &text).ok());
  return text;
}

// `text` with each object and list of JSON in it Sorted.
std::string WithSortedJson(const std::string& text) {
  std::string sorted;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    Value value;
    if (text[begin] == '{' || text[begin] == '[') {
      const char close = text[begin] == '{' ? '}' : ']';
      end = text.find(close, begin);
      while (end != std::string::npos &&
             !google::protobuf::util::JsonStringToMessage(
                  text.substr(begin, end + 1 - begin), &value)
                  .ok()) {
        end = text.find(close, end + 1);
      }
    }
    const bool json = end != begin && end != std::string::npos;
    absl::StrAppend(&sorted, json ? Sorted(value) : text.substr(begin, 1));
    begin = json ? end + 1 : begin + 1;
  }
  return sorted;
}

// What is measured: nothing, times (numbers with a fraction), or all numbers.
enum class Measured { kNothing, kTimes, kNumbers };

class PlanbctlOutputTest : public testing::RealServerFixture {
 protected:
  PlanbctlOutputTest() {
    grpc::EnableDefaultHealthCheckService(true);
    fixed_server_ =
        grpc::ServerBuilder()
            .AddListeningPort(fixed_target_, grpc::InsecureServerCredentials())
            .RegisterService(&fixed_)
            .BuildAndStart();
  }

  // Runs a command in these forms and keeps what it prints.
  void Run(const std::string& words, Measured measured = Measured::kNothing,
           const std::vector<std::string>& forms = {"table", "json", "csv"}) {
    for (const std::string& form : forms) {
      const std::string command = absl::StrCat(words, " --output=", form);
      std::string out = testing::Ctl(command).out;
      if (form == "csv") out = absl::StrReplaceAll(out, {{"\"\"", "\""}});
      if (form != "table") out = WithSortedJson(out);
      std::string text = absl::StrReplaceAll(
          absl::StrCat("$ planbctl ", command, "\n", out),
          {{::testing::TempDir(), "TMP"}, {fixed_target_, "FIXED"}});
      static const std::regex times(
          "[0-9]+\\.[0-9]+([eE][-+]?[0-9]+)?(?![0-9.])|"
          "20[0-9-]+T[0-9:.]+(Z|\\+00:00)");
      // With the blanks after it, which depend on its width.
      static const std::regex numbers(
          "\\b[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?( (?= ))*");
      if (measured != Measured::kNothing) {
        text = std::regex_replace(
            text, measured == Measured::kTimes ? times : numbers, "#");
        // A busy machine carries less.
        static const std::regex busy(": MORE THAN WAS CARRIED.*");
        text = std::regex_replace(text, busy, "");
      }
      text_ += text;
    }
  }

  TableService fixed_;
  const std::string fixed_target_ =
      absl::StrCat("unix://", TempPath("fixed.sock"));
  std::unique_ptr<grpc::Server> fixed_server_;
  std::string text_;
};

const std::vector<std::string> kAllForms = {"table", "json", "yaml", "csv"};

// A BGP4MP update of AS65001 at 192.0.2.1 that announces 192.0.2.0/24.
constexpr char kUpdate[] =
    "600000010010000400000043"
    "0000fde90000fde800000001c0000201c0000202"
    "ffffffffffffffffffffffffffffffff002f02"
    "000000144001010040020602010000fde9400304c000020118c00002";

TEST_F(PlanbctlOutputTest, StaysAsItIs) {
  const std::string fixed = absl::StrCat(" --server=", fixed_target_);
  Run("table show" + fixed, Measured::kNothing, {"table"});
  Run("table show empty" + fixed, Measured::kNothing, {"table"});
  Run("table list" + fixed);
  Run("table create default" + fixed, Measured::kNothing, {"table", "json"});
  Run("status" + fixed, Measured::kTimes, kAllForms);
  Run("reload" + fixed);
  Run("health" + fixed);

  Run("nexthop set 5 --gateway=fe80::1 --interface=eth0 --weight=3 "
      "--label='the \"transit\", <é>'");
  Run("nexthop set 6");
  Run("group set 9 5 6\\*2 --label=both");
  Run("announce 2001:db8::/32 9 2001:db8:1::/48 5 10.0.0.0/8 6",
      Measured::kTimes);
  Run("withdraw --dry_run 10.0.0.0/8 192.0.2.0/24", Measured::kTimes);
  Run("nexthop list", Measured::kNothing, kAllForms);
  Run("group list");
  Run("lookup 2001:db8::1 10.0.0.1 ::1", Measured::kNothing, kAllForms);
  Run("lookup --noprefixes --flow_hash=2 2001:db8::1");
  Run("routes list");
  Run("routes get 10.0.0.0/8");
  Run("routes get 10.0.0.0/9");
  Run("routes explain --flow_hash=2 2001:db8:2::1");
  Run("routes explain 2001:db8:1::1");
  Run("routes explain ::1");
  Run("withdraw 10.0.0.0/8", Measured::kTimes);
  Run("nexthop set 7");
  Run("nexthop delete 7");
  Run("routes watch --start=0 --count=6");
  const std::string file =
      Write("routes", "192.0.2.0/24 4\n2001:db8::/32 9\n2001:db8:1::/48 6\n");
  Run("routes diff " + file);
  Run("routes replace --dry_run " + file, Measured::kTimes);
  Run("load " + file, Measured::kTimes, kAllForms);
  Run("load " + Write("bad", "192.0.2.0/24 4\nbad\n"), Measured::kTimes,
      {"table"});
  Run("verify --samples=10 " + file, Measured::kTimes);
  Run("snapshot export " + Scratch("snapshot"));
  Run("soak --seconds=0.1 --batch=16 " + file, Measured::kNumbers);
  Run("bench --seconds=0.1 --warmup=0s --batch=16 --quiet", Measured::kNumbers);
  Run("bench --seconds=1 --warmup=0s --batch=16 --quiet --rate=160 --check "
      "--server_pid=1 --routes=" +
          file,
      Measured::kNumbers, {"table", "json"});
  Run("replay --speed=0 " + Write("updates", absl::HexStringToBytes(kUpdate)),
      Measured::kNumbers);
  Kill();
  Start("none", file, {"--metrics_address=127.0.0.1:0"});
  Run(absl::StrCat("top --interval=10ms --rounds=1 --metrics=127.0.0.1:",
                   server_->AwaitPortOf("metrics")),
      Measured::kNumbers);

  const char* kept = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  const std::string printed =
      absl::StrCat(kept == nullptr ? "." : kept, "/output.txt");
  std::ofstream(printed) << text_;
  EXPECT_EQ(std::system(absl::StrCat("diff -a -U1 client/planbctl/testdata/"
                                     "output.txt ",
                                     printed)
                            .c_str()),
            0);
}

TEST_F(PlanbctlOutputTest, StatusShowsReplicasAndTheirLag) {
  EXPECT_THAT(Do("status"), Not(HasSubstr("replica")));
  v1::ListReplicasResponse replicas;
  const std::string status = "status --server=" + fixed_target_;
  const auto add = [&](const char* name, uint64_t visible, absl::Duration age) {
    v1::Replica& replica = *replicas.add_replicas();
    replica.set_name(name);
    replica.set_version("0.9.0");
    replica.set_reported_unix_nanos(
        static_cast<uint64_t>(absl::ToUnixNanos(absl::Now() - age)));
    auto& other = *replica.add_tables();
    other.set_table("other");
    other.set_generation(visible + 77);
    if (visible == 0) return;
    auto& table = *replica.add_tables();
    table.set_table("default");
    table.set_generation(visible);
  };
  // Hours: a slow machine adds seconds.
  add("front", 12'345'678, absl::Hours(2));
  add("next", 12'345'678, absl::Hours(3));
  add("late", 12'345'676, absl::Hours(5));
  add("empty", 0, absl::Hours(1));  // does not have the table yet
  replicas.mutable_replicas(1)->set_self(true);
  fixed_.SetReplicas(replicas);
  const std::string text = Do(status);
  std::vector<std::vector<std::string>> rows;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (rows.empty() && !absl::StartsWith(line, "replica ")) continue;
    std::vector<std::string> cells =
        absl::StrSplit(line, "  ", absl::SkipEmpty());
    for (std::string& cell : cells) absl::StripAsciiWhitespace(&cell);
    rows.push_back(cells);
  }
  // A text such as "7203.1 s ago", as hours, rounded down.
  const auto hours = [](absl::string_view cell) {
    double seconds = -1;
    EXPECT_TRUE(absl::SimpleAtod(cell.substr(0, cell.find(' ')), &seconds))
        << cell;
    return static_cast<int>(seconds / 3600);
  };
  ASSERT_EQ(rows.size(), 6U) << text;  // the last is empty
  EXPECT_THAT(rows[0], ElementsAre("replica", "visible", "behind",
                                   "for at least", "reported", "version"));
  const std::vector<std::vector<std::string>> expected = {
      {"front", "12345678", "0", "-"},
      {"next *", "12345678", "0", "-"},
      {"late", "12345676", "2"},
      {"empty", "0", "12345678"}};
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(rows[i + 1].size(), 6U) << text;
    const std::vector<std::string> begin(
        rows[i + 1].begin(), rows[i + 1].begin() + expected[i].size());
    EXPECT_EQ(begin, expected[i]);
    EXPECT_EQ(rows[i + 1][5], "0.9.0");
  }
  EXPECT_EQ(hours(rows[1][4]), 2);
  EXPECT_EQ(hours(rows[3][4]), 5);
  // The last report of "next" is the first ahead of "late"; and that of "late"
  // is the first ahead of "empty".
  EXPECT_EQ(hours(rows[3][3]), 3);
  EXPECT_EQ(hours(rows[4][3]), 5);
  const std::string json = Do(status + " --json");
  EXPECT_THAT(json, AllOf(HasSubstr(R"("name":"late","version":"0.9.0",)"),
                          HasSubstr(R"("behind":2,)"),
                          HasSubstr(R"("behind_seconds":1)")));
  // What the table has accepted counts too, although no server reports it.
  v1::ListReplicasResponse none;
  replicas.Swap(&none);
  add("alone", 0, absl::Hours(1));
  fixed_.SetReplicas(replicas);
  EXPECT_THAT(Do(status + " --json"), AllOf(HasSubstr(R"("behind":12345678,)"),
                                            Not(HasSubstr("behind_seconds"))));
}

TEST_F(PlanbctlOutputTest, AServerThatDoesNotServeEndsWith1) {
  fixed_server_->GetHealthCheckService()->SetServingStatus(false);
  const std::string fixed = " --server=" + fixed_target_;
  EXPECT_EQ(Fails(1, "health" + fixed), "NOT_SERVING\n");
  Fails(1, "status" + fixed);
}

}  // namespace
}  // namespace planb::client
