// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lpm/io/table_file.h"
#include "lpm/io/testing/bytes.h"
#include "lpm/io/testing/read.h"

namespace planb {
namespace {

using ::testing::HasSubstr;

void ExpectThereAndBack(const TableContents& contents, size_t piece) {
  const TableReading reading = ReadTable(WriteTable(contents), piece);
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_TRUE(reading.contents == contents);
  EXPECT_EQ(reading.ends, 1);
  EXPECT_EQ(reading.counts.next_hops, contents.next_hops.size());
  EXPECT_EQ(reading.counts.groups, contents.groups.size());
  EXPECT_EQ(reading.counts.ipv4_routes + reading.counts.ipv6_routes,
            contents.routes.size());
}

// Every prefix length, about `count` of each family.
TableContents LargeTable(size_t count) {
  TableContents table = SmallTable();
  std::mt19937_64 random(5);
  std::vector<Prefix> prefixes;
  for (size_t i = 0; i < count; ++i) {
    prefixes.push_back(
        Prefix::Truncate(Address::V4(static_cast<uint32_t>(random())),
                         static_cast<int>(random() % 33)));
    prefixes.push_back(
        Prefix::Truncate(Address::V6(absl::MakeUint128(random(), random())),
                         static_cast<int>(random() % 129)));
  }
  std::sort(prefixes.begin(), prefixes.end());
  prefixes.erase(std::unique(prefixes.begin(), prefixes.end()), prefixes.end());
  table.routes.clear();
  for (const Prefix& prefix : prefixes) {
    table.routes.push_back(
        {prefix, static_cast<NextHopId>(1 + random() % 0xfffffffe)});
  }
  for (NextHopId id = 11; id < 6000; ++id) {
    table.next_hops.insert(table.next_hops.end() - 1,
                           {.id = id, .label = absl::StrCat("hop ", id)});
    table.groups.push_back({id, {{7, id}}, std::string(id % 300, 'g')});
  }
  return table;
}

TEST(TableFileReader, ReadsTheWritersFiles) {
  for (const size_t piece : {size_t{1}, size_t{7}, SIZE_MAX}) {
    ExpectThereAndBack({}, piece);
    ExpectThereAndBack({.routes = {{*Prefix::Parse("::/0"), 1}}}, piece);
    ExpectThereAndBack(SmallTable(), piece);
  }
}

TEST(TableFileReader, ReadsManyBlocks) {
  const TableContents large = LargeTable(70000);
  EXPECT_GT(large.routes.size(), 100000u);
  for (const size_t piece : {size_t{1000}, size_t{65537}, SIZE_MAX}) {
    ExpectThereAndBack(large, piece);
  }
}

TEST(TableFileReader, NeverAcceptsACutFile) {
  const std::string bytes = WriteTable(SmallTable());
  const TableReading whole = ReadTable(bytes);
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    const TableReading reading = ReadTable(bytes.substr(0, cut), 5);
    EXPECT_TRUE(absl::IsDataLoss(reading.status)) << reading.status;
    EXPECT_THAT(reading.status.message(),
                HasSubstr(absl::StrCat("ends at byte ", cut)));
    EXPECT_EQ(reading.ends, 0);
    EXPECT_LE(reading.contents.routes.size(), whole.contents.routes.size());
  }
}

TEST(TableFileReader, DetectsEveryFlippedBit) {
  const std::string bytes = WriteTable(SmallTable());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const TableReading reading = ReadTable(flipped);
    EXPECT_EQ(reading.ends, 0);
    if (bit < 8 * 8) {
      EXPECT_TRUE(absl::IsInvalidArgument(reading.status)) << reading.status;
    } else if (bit >= 8 * 8 && bit < 12 * 8 && bit != 8 * 8 + 1) {
      // Version 2, of which one bit makes 0, which there never was.
      EXPECT_TRUE(absl::IsUnimplemented(reading.status)) << reading.status;
    } else {
      EXPECT_TRUE(absl::IsDataLoss(reading.status)) << reading.status;
      EXPECT_THAT(reading.status.message(), HasSubstr("at byte"));
    }
  }
}

TEST(TableFileReader, DetectsBytesAfterTheEnd) {
  const std::string bytes = WriteTable(SmallTable());
  for (const std::string& more : {std::string(1, '\0'), bytes}) {
    for (const size_t piece : {size_t{1}, bytes.size(), SIZE_MAX}) {
      const TableReading reading = ReadTable(bytes + more, piece);
      EXPECT_TRUE(absl::IsDataLoss(reading.status)) << reading.status;
      EXPECT_THAT(reading.status.message(),
                  HasSubstr(absl::StrCat("at byte ", bytes.size())));
      EXPECT_EQ(reading.ends, 0);
    }
  }
}

TEST(TableFileReader, RefusesOtherFiles) {
  for (const std::string& bytes :
       {std::string("x"), std::string("\x89PLA"), std::string("::/0 1\n"),
        std::string(1000, '\0')}) {
    const absl::Status status = ReadTable(bytes).status;
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("not a table file"));
  }
}

constexpr uint32_t kHeader = 1, kHops = 2, kGroups = 3, kRoutes4 = 4,
                   kRoutes6 = 5, kEnd = 6;

std::string HeaderPayload() {
  return absl::StrCat(Little64(1), std::string(16, 'd'), Little16(1), "t");
}
std::string HopPayload(NextHopId id) {
  return absl::StrCat(Little32(id), Little32(1), std::string(5, '\0'));
}
std::string EndPayload(uint64_t hops, uint64_t groups, uint64_t v4,
                       uint64_t v6) {
  return absl::StrCat(Little64(hops), Little64(groups), Little64(v4),
                      Little64(v6));
}
// ::/0 or 0.0.0.0/0.
std::string DefaultPayload() { return Little32(1) + std::string(1, '\0'); }

void ExpectDamaged(const std::vector<std::pair<uint32_t, std::string>>& blocks,
                   const std::string& message) {
  const TableReading reading = ReadTable(TableFileOf(blocks));
  EXPECT_TRUE(absl::IsDataLoss(reading.status)) << reading.status;
  EXPECT_THAT(reading.status.message(), HasSubstr(message));
  EXPECT_EQ(reading.ends, 0);
}

TEST(TableFileReader, RefusesInvalidContentsWithValidChecksums) {
  const std::pair header{kHeader, HeaderPayload()};
  const std::pair hop{kHops, HopPayload(3)};
  const std::pair route4{kRoutes4, DefaultPayload()};
  const std::pair route6{kRoutes6, DefaultPayload()};
  // The control: these parts make a valid file.
  const TableReading good = ReadTable(TableFileOf(
      {header, hop, route4, route6, {kEnd, EndPayload(1, 0, 1, 1)}}));
  ASSERT_TRUE(good.status.ok()) << good.status;

  ExpectDamaged({{kEnd, EndPayload(0, 0, 0, 0)}}, "block of type 6 out of");
  ExpectDamaged({hop}, "block of type 2 out of order");
  ExpectDamaged({header, header}, "block 1: a block of type 1 out of order");
  ExpectDamaged({header, route4, hop}, "block of type 2 out of order");
  ExpectDamaged({header, route6, route4}, "block of type 4 out of order");
  ExpectDamaged({header, {7, "x"}}, "no block type 7");
  ExpectDamaged({header, {0, "x"}}, "no block type 0");
  ExpectDamaged({header, {kHops, ""}}, "a block of 0 bytes");
  ExpectDamaged({header, {kHops, std::string(65537, 'x')}},
                "a block of 65537 bytes");
  ExpectDamaged({{kHeader, HeaderPayload() + "x"}}, "after the header");
  ExpectDamaged({{kHeader, "x"}}, "past the end");
  ExpectDamaged({header, {kHops, HopPayload(3) + "x"}}, "past the end");
  ExpectDamaged({header, hop, hop}, "next hop 3 comes after next hop 3");
  ExpectDamaged({header, {kGroups, "x"}}, "past the end");
  ExpectDamaged({header, route6, route6}, "comes after that of ::/0");
  ExpectDamaged({header, {kEnd, "x"}}, "past the end");
  ExpectDamaged({header, {kEnd, std::string(41, '\0')}}, "after the counts");
  for (const std::string& counts :
       {EndPayload(0, 0, 1, 1), EndPayload(1, 1, 1, 1), EndPayload(1, 0, 2, 1),
        EndPayload(1, 0, 1, 0)}) {
    ExpectDamaged({header, hop, route4, route6, {kEnd, counts}},
                  "not hold as many items");
  }
}

TEST(TableFileReader, DetectsABlockOfAnotherFile) {
  // The block has the same ordinal and size, and its own checksum is valid.
  TableContents table = SmallTable();
  const std::string one = WriteTable(table);
  table.header.generation += 1;
  const std::string other = WriteTable(table);
  ASSERT_EQ(one.size(), other.size());
  constexpr size_t kFirst = 12 + 16 + 8 + 16 + 2 + 7;
  const absl::Status status =
      ReadTable(one.substr(0, kFirst) + other.substr(kFirst)).status;
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("the file's checksum is wrong"));
}

TEST(TableFileReader, RefusesOtherVersions) {
  const std::pair header{kHeader, HeaderPayload()};
  const std::pair end{kEnd, EndPayload(0, 0, 0, 0)};
  EXPECT_TRUE(ReadTable(TableFileOf({header, end})).status.ok());
  for (const uint32_t version : {3u, 0x7fffffffu, 0xffffffffu}) {
    const absl::Status status =
        ReadTable(TableFileOf({header, end}, version)).status;
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(absl::StrCat(version)));
  }
  EXPECT_TRUE(
      absl::IsDataLoss(ReadTable(TableFileOf({header, end}, 0)).status));
}

// Fails at the given call.
struct FailingSink : TableReading {
  explicit FailingSink(int good) : left(good) {}
  absl::Status Next(absl::Status kept) {
    return left-- > 0 ? kept : absl::AbortedError("enough");
  }
  absl::Status OnHeader(const TableFileHeader& header) override {
    return Next(TableReading::OnHeader(header));
  }
  absl::Status OnNextHop(const NextHop& next_hop) override {
    return Next(TableReading::OnNextHop(next_hop));
  }
  absl::Status OnGroup(const NextHopGroup& group) override {
    return Next(TableReading::OnGroup(group));
  }
  absl::Status OnRoute(const Route& route) override {
    return Next(TableReading::OnRoute(route));
  }
  absl::Status OnEnd(const TableFileCounts& given) override {
    return Next(TableReading::OnEnd(given));
  }
  int left;
};

TEST(TableFileReader, StopsAtAnErrorOfTheSink) {
  const std::string bytes = WriteTable(SmallTable());
  constexpr int kCalls = 1 + 3 + 2 + 7 + 1;
  for (int good = 0; good <= kCalls; ++good) {
    FailingSink sink(good);
    TableFileReader reader(sink);
    const absl::Status pushed = reader.Push(bytes);
    EXPECT_EQ(pushed.ok(), good >= kCalls - 1);
    const absl::Status finished = reader.Finish();
    EXPECT_EQ(finished.ok(), good == kCalls);
    EXPECT_EQ(absl::IsAborted(finished), good < kCalls) << finished;
    EXPECT_EQ(sink.left, good < kCalls ? -1 : 0);
  }
}

}  // namespace
}  // namespace planb
