// SPDX-License-Identifier: Apache-2.0

// The command line, differences of tables, and the pipeline of addresses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "client/planbctl/address_pipeline.h"
#include "client/planbctl/command.h"
#include "client/planbctl/output.h"
#include "client/planbctl/record.h"
#include "client/planbctl/route_source.h"
#include "client/planbctl/table_objects.h"
#include "client/testing/misbehaving_proxy.h"
#include "client/testing/real_server_fixture.h"
#include "planb/client/output.pb.h"

ABSL_FLAG(bool, test_bool, false, "");
ABSL_FLAG(int, test_number, 5, "");
ABSL_FLAG(std::string, test_text, "", "");
ABSL_FLAG(int, node, 0, "");  // begins with "no"

namespace planb::client {

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CommandLineTest : public ::testing::Test {
 private:
  absl::FlagSaver saver_;
};

TEST_F(CommandLineTest, FlagsAndWordsInAnyOrder) {
  const auto line =
      ParseCommandLine({"--test_number=7", "lookup", "--test_bool", "::1",
                        "--test_text", "--odd", "-", "--node=3"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->words, ElementsAre("lookup", "::1", "-"));
  EXPECT_THAT(line->flags,
              ElementsAre("test_number", "test_bool", "test_text", "node"));
  EXPECT_FALSE(line->help);
  EXPECT_EQ(absl::GetFlag(FLAGS_test_number), 7);
  EXPECT_TRUE(absl::GetFlag(FLAGS_test_bool));
  EXPECT_EQ(absl::GetFlag(FLAGS_test_text), "--odd");
  EXPECT_EQ(absl::GetFlag(FLAGS_node), 3);
}

TEST_F(CommandLineTest, BooleansHaveANegativeForm) {
  ASSERT_TRUE(ParseCommandLine({"--test_bool=true"}).ok());
  EXPECT_TRUE(absl::GetFlag(FLAGS_test_bool));
  ASSERT_TRUE(ParseCommandLine({"--notest_bool"}).ok());
  EXPECT_FALSE(absl::GetFlag(FLAGS_test_bool));
}

TEST_F(CommandLineTest, TwoDashesEndFlags) {
  const auto line = ParseCommandLine({"a", "--", "--test_bool", "--", "-h"});
  ASSERT_TRUE(line.ok());
  EXPECT_THAT(line->words, ElementsAre("a", "--test_bool", "--", "-h"));
  EXPECT_THAT(line->flags, IsEmpty());
  EXPECT_FALSE(line->help);
}

TEST_F(CommandLineTest, ErrorsNameTheFlag) {
  for (const auto& [word, why] :
       {std::pair("--unknown=1", "unknown flag --unknown"),
        std::pair("--unknown", "unknown flag --unknown"),
        std::pair("--notest_number", "unknown flag --notest_number"),
        std::pair("-test_bool", "unknown flag -test_bool"),
        std::pair("--test_number", "--test_number needs a value"),
        std::pair("--test_number=x",
                  "--test_number: \"x\" is not a whole number"),
        std::pair("--timeout=5", "--timeout: \"5\" is not a time with its"),
        std::pair("--timeout=-5s", "--timeout: must not be negative"),
        std::pair("--batch=-1", "--batch: \"-1\" is not a number of 0..4294"),
        std::pair("--flow_hash=x", "--flow_hash: \"x\" is not a number of"),
        std::pair("--seed=x", "is not a number of 0..18446744073709551615"),
        std::pair("--expected_generation=x", "\"x\" is not a number of"),
        std::pair("--rate=x", "--rate: \"x\" is not a number, such as"),
        std::pair("--json=x", "--json: \"x\" is not true or false"),
        std::pair("--output=x", "must be one of: table, json"),
        std::pair("--chunk=0", "--chunk: must be more than 0"),
        std::pair("--timeout=0", "--timeout: must be more than 0"),
        std::pair("--request_id=a\xff", "--request_id: is not UTF-8"),
        std::pair("--test_bool=maybe",
                  "--test_bool: \"maybe\" is not true or")}) {
    const absl::Status status = ParseCommandLine({word}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << word;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
}

// Applying the differences to one table makes the other.

std::vector<RouteDifference> Diff(const std::vector<Route>& old_routes,
                                  const std::vector<Route>& wanted) {
  std::vector<RouteDifference> differences;
  RouteDiff diff(wanted, [&](const RouteDifference& difference) {
    differences.push_back(difference);
  });
  for (const Route& route : old_routes) diff.Add(route);
  diff.Finish();
  return differences;
}

Route MakeRoute(uint32_t i, NextHopId next_hop) {
  return {*Prefix::Create(Address::V4(i << 8), 24), next_hop};
}

TEST(RouteDiff, FindsEveryKind) {
  EXPECT_THAT(Diff({MakeRoute(1, 1), MakeRoute(2, 2), MakeRoute(3, 3)},
                   {MakeRoute(0, 9), MakeRoute(2, 2), MakeRoute(3, 4),
                    MakeRoute(5, 5)}),
              ElementsAre(RouteDifference{MakeRoute(0, 0).prefix, 0, 9},
                          RouteDifference{MakeRoute(1, 0).prefix, 1, 0},
                          RouteDifference{MakeRoute(3, 0).prefix, 3, 4},
                          RouteDifference{MakeRoute(5, 0).prefix, 0, 5}));
}

TEST(RouteDiff, MakesOneTableOfTheOther) {
  absl::BitGen random;
  for (int round = 0; round < 200; ++round) {
    std::map<Prefix, NextHopId> tables[2];
    std::vector<Route> routes[2];
    for (int side : {0, 1}) {
      for (int i = absl::Uniform(random, 0, 20); i > 0; --i) {
        const Route route = MakeRoute(absl::Uniform(random, 0U, 30U),
                                      absl::Uniform(random, 1U, 4U));
        tables[side][route.prefix] = route.next_hop;
      }
      for (const auto& [prefix, next_hop] : tables[side]) {
        routes[side].push_back({prefix, next_hop});
      }
    }
    for (const RouteDifference& difference : Diff(routes[0], routes[1])) {
      EXPECT_NE(difference.old_next_hop, difference.next_hop);
      const auto found = tables[0].find(difference.prefix);
      EXPECT_EQ(found == tables[0].end() ? kNoRoute : found->second,
                difference.old_next_hop);
      tables[0].erase(difference.prefix);
      if (difference.next_hop != kNoRoute) {
        tables[0][difference.prefix] = difference.next_hop;
      }
    }
    EXPECT_EQ(tables[0], tables[1]);
  }
}

// Answers come in the order of the addresses, with mixed families and batches
// of any size.

// A mix of routed and unrouted addresses of both families.
std::vector<Address> Mixed(size_t count) {
  std::mt19937 random(7);
  std::vector<Address> addresses;
  for (size_t i = 0; i < count; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    switch (random() % 3) {
      case 0:
        addresses.push_back(Address::V4(0x0a000000U | bits >> 14));
        break;
      case 1:
        addresses.push_back(Address::V4(0x0b000000U | bits >> 8));
        break;
      default:
        addresses.push_back(Address::V6(
            absl::MakeUint128(0x20010db800000000ULL | bits >> 7, bits)));
    }
  }
  return addresses;
}

TEST(AddressPipeline, AnswersEveryAddressInOrder) {
  const ReferenceTable table(testing::ManyRoutes());
  const std::vector<Address> addresses = Mixed(1000);
  for (const size_t batch : {0, 1, 7, 64, 1000, 5000}) {
    for (const size_t depth : {0, 1, 3}) {
      std::vector<AddressAnswer> answers;
      AddressPipeline pipeline(
          *ChannelsTo(testing::SharedServer()),
          {.batch = batch, .depth = depth, .want_prefixes = true},
          [&](const AddressAnswer& answer) { answers.push_back(answer); });
      for (const Address& address : addresses) {
        ASSERT_TRUE(pipeline.Add(address).ok());
        if (batch <= 1 && depth <= 1) {
          ASSERT_EQ(answers.back().address, address);
        }
      }
      ASSERT_TRUE(pipeline.Finish().ok());
      ASSERT_EQ(answers.size(), addresses.size());
      for (size_t i = 0; i < addresses.size(); ++i) {
        const std::optional<Route> route = table.Lookup(addresses[i]);
        ASSERT_EQ(answers[i].address, addresses[i]);
        ASSERT_EQ(answers[i].generation, 1U);
        if (route.has_value()) {
          ASSERT_EQ(answers[i].next_hop, route->next_hop);
          ASSERT_EQ(answers[i].prefix, route->prefix);
        } else {
          ASSERT_EQ(answers[i].next_hop, kNoRoute);
          ASSERT_FALSE(answers[i].prefix.has_value());
        }
      }
    }
  }
}

TEST(AddressPipeline, ADyingServerIsAnError) {
  testing::MisbehavingProxy proxy(testing::SharedServer());
  proxy.EndCalls(3,
                 testing::MakeError(grpc::StatusCode::UNAVAILABLE, "DRAINING"));
  size_t answered = 0;
  AddressPipeline pipeline(*ChannelsTo(proxy.target()),
                           {.batch = 10, .give_up_after = absl::ZeroDuration()},
                           [&](const AddressAnswer&) { ++answered; });
  absl::Status status;
  for (const Address& address : Mixed(100)) {
    status = pipeline.Add(address);
    if (!status.ok()) break;
  }
  if (status.ok()) status = pipeline.Finish();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(answered, 30U);
}

TEST_F(CommandLineTest, ColorsAreForTerminalsUnlessAskedFor) {
  // The output of a test is no terminal.
  EXPECT_FALSE(UsesColor(stdout));
  ASSERT_TRUE(ParseCommandLine({"--color=always"}).ok());
  EXPECT_TRUE(UsesColor(stdout));
  EXPECT_TRUE(UsesColor(stderr));
  TextTable table({"name", "n"});
  table.AddRow({"a", "5"});
  EXPECT_EQ(table.ToString(), "\x1b[1mname  n\x1b[0m\na     5\n");
  ASSERT_TRUE(ParseCommandLine({"--color=never"}).ok());
  EXPECT_FALSE(UsesColor(stdout));
  EXPECT_EQ(table.ToString(), "name  n\na     5\n");
  EXPECT_FALSE(ParseCommandLine({"--color=loud"}).ok());
}

TEST(Colored, BadNewsAreRedAndGoodOnesGreen) {
  EXPECT_EQ(Colored("::1\tno route\n"), "::1\t\x1b[31mno route\x1b[0m\n");
  EXPECT_EQ(Colored("NOT_SERVING\n"), "\x1b[31mNOT_SERVING\x1b[0m\n");
  EXPECT_EQ(Colored("SERVING\n"), "\x1b[32mSERVING\x1b[0m\n");
  EXPECT_EQ(Colored("next hop 5"), "next hop 5");
}

TEST(SizeText, HasOneDigitOfTheLargestUnit) {
  EXPECT_EQ(SizeText(0), "0 bytes");
  EXPECT_EQ(SizeText(1023), "1023 bytes");
  EXPECT_EQ(SizeText(1024), "1.0 KiB");
  EXPECT_EQ(SizeText(1536), "1.5 KiB");
  EXPECT_EQ(SizeText((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(SizeText(960 << 20), "960.0 MiB");
  EXPECT_EQ(SizeText(4.0 * (1 << 30)), "4.0 GiB");
  EXPECT_EQ(SizeText(5e15), "4547.5 TiB");
}

TEST(FormText, HasSizesInUnits) {
  v1::Table table;
  table.set_fib_bytes(3 << 20);
  table.set_retired_fib_bytes(12);
  table.set_rib_bytes(2560);
  table.set_memory_bound_bytes(7 << 20);
  table.set_memory_limit_bytes(uint64_t{4} << 30);
  table.set_history_bytes(16 << 20);
  EXPECT_THAT(FormText(FieldsOf(table)),
              AllOf(HasSubstr(" 3.0 MiB FIB, 12 bytes retired, 2.5 KiB RIB\n"),
                    HasSubstr(" 7.0 MiB, at most 4.0 GiB\n"),
                    HasSubstr(" 16.0 MiB, from generation 0\n")));
}

// Protobuf's own JSON has 64 bits in quotes, and a double would round them.
TEST_F(CommandLineTest, NumbersOf64BitsAreExactJsonNumbers) {
  ASSERT_TRUE(ParseCommandLine({"--json"}).ok());
  v1::Table table;
  table.set_memory_limit_bytes(UINT64_MAX);
  table.set_last_build_nanos(1'500'000);
  EXPECT_THAT(Record(FieldsOf(table)),
              AllOf(HasSubstr(R"("memory_limit_bytes":18446744073709551615,)"),
                    HasSubstr(R"("last_build_seconds":0.0015,)"),
                    HasSubstr(R"("fib_bytes":0,)"), EndsWith("}\n")));
}

TEST_F(CommandLineTest, InfiniteNumbersAreJsonStrings) {
  ASSERT_TRUE(ParseCommandLine({"--json"}).ok());
  output::Bench bench;
  bench.set_drain_seconds(std::numeric_limits<double>::infinity());
  EXPECT_THAT(Record(FieldsOf(bench)),
              HasSubstr(R"("drain_seconds":"Infinity")"));
}

TEST_F(CommandLineTest, CsvHasQuotesAroundCommasAndTwiceInAText) {
  ASSERT_TRUE(ParseCommandLine({"--output=csv"}).ok());
  v1::UpdateError error;
  error.set_message("a,\"b\"");
  EXPECT_THAT(Record(FieldsOf(error)), HasSubstr(R"("a,""b""")"));
}

// This message stands for one that the contract has gained.
TEST(FormText, AFieldWithoutAHeadingHasItsName) {
  v1::UpdateError error;
  error.set_code(3);
  error.set_field("updates[0]\n");
  EXPECT_EQ(FormText(FieldsOf(error)),
            "code           3\nfield          updates[0]\\n\n");
  v1::StreamUpdatesResponse response;
  response.set_accepted_unix_nanos(1);
  *response.mutable_error() = error;
  EXPECT_THAT(FormText(FieldsOf(response)),
              HasSubstr("accepted time  1970-01-01T00:00:00.000000001+00:00\n"
                        "credits        0\n"
                        "error          code 3 field updates[0]\\n\n"));
}

TEST(Fill, APartWithoutAFieldIsLeftOut) {
  v1::Route route;
  route.set_next_hop_id(5);
  EXPECT_EQ(
      Fill("to {next_hop}[, of {label}][ (id {next_hop})]", FieldsOf(route)),
      "to 5 (id 5)");
}

TEST(ProgressText, HasABarIfTheEndIsKnown) {
  EXPECT_EQ(ProgressText("routes", 500, 0, absl::Seconds(2)),
            "500 routes, 250/s");
  EXPECT_EQ(ProgressText("routes", 0, 10, absl::ZeroDuration()),
            "[                              ]   0%  0 of 10 routes");
  EXPECT_EQ(ProgressText("routes", 5, 10, absl::Seconds(1)),
            "[###############               ]  50%  5 of 10 routes, 5/s");
  EXPECT_EQ(ProgressText("routes", 12, 10, absl::Seconds(1)),
            "[##############################] 100%  12 of 10 routes, 12/s");
}

NextHop Via(NextHopId id, const std::string& gateway,
            const std::string& interface = "", const std::string& label = "") {
  return {.id = id,
          .gateway = *Address::Parse(gateway),
          .interface = interface,
          .label = label};
}

TEST(KnownObjectsTest, AnObjectIsItsGatewayAndInterface) {
  KnownObjects known(
      {.next_hops = {Via(8, "192.0.2.1", "", "x"), Via(5, "192.0.2.1", "", "y"),
                     Via(6, "192.0.2.1", "eth0")}});
  EXPECT_EQ(known.Find(Via(1, "192.0.2.1")), 5U);  // the lowest
  EXPECT_EQ(known.Find(Via(8, "192.0.2.1")), 8U);  // the same id
  EXPECT_EQ(known.Find(Via(6, "192.0.2.1", "eth0")), 6U);
  EXPECT_EQ(known.Find(Via(6, "192.0.2.1", "eth1")), kNoRoute);
  EXPECT_EQ(known.Canonical(8), 5U);
  EXPECT_EQ(known.Canonical(77), 77U);
}

TEST(KnownObjectsTest, ALabelTellsLinkLocalGatewaysApart) {
  KnownObjects known({.next_hops = {Via(1, "fe80::1", "", "peer a"),
                                    Via(2, "fe80::1", "eth0", "peer a"),
                                    {.id = 3, .label = "blackhole"}}});
  EXPECT_EQ(known.Find(Via(1, "fe80::1", "", "peer b")), kNoRoute);
  EXPECT_EQ(known.Find(Via(9, "fe80::1", "eth0", "peer b")), 2U);
  EXPECT_EQ(known.Find(NextHop{.id = 3, .label = "connected"}), kNoRoute);
}

TEST(KnownObjectsTest, NewObjectsGetFreeIds) {
  KnownObjects known(
      {.next_hops = {Via(1, "192.0.2.1")},
       .groups = {{.id = 2, .members = {{1, 1}, {3, 1}}, .label = ""}}},
      /*used=*/{4});
  for (NextHopId taken : {1, 2, 3, 4}) {
    const NextHopId id = known.FindOrAdd(
        Via(taken, absl::StrCat("198.51.100.", taken)), /*keep_id=*/true);
    EXPECT_GE(id, kFirstMadeId);
    EXPECT_LT(id, kEndOfMadeIds);
  }
  EXPECT_EQ(known.FindOrAdd(Via(5, "198.51.100.9"), true), 5U);
  EXPECT_EQ(known.FindOrAdd(Via(6, "198.51.100.9"), true), 5U);
  EXPECT_EQ(known.missing().next_hops.size(), 5U);
  EXPECT_EQ(known.FindOrAdd({.id = 9, .members = {{3, 1}, {1, 1}}, .label = ""},
                            true),
            2U);
}

}  // namespace
}  // namespace planb::client
