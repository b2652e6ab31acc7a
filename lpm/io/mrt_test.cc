// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/mrt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lpm/io/testing/bytes.h"
#include "lpm/io/testing/read.h"

namespace planb {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Reads all records; each becomes "offset type/subtype body" in `*records`.
Reading ReadRecords(std::string bytes, std::vector<std::string>* records,
                    bool strict = false, size_t piece = SIZE_MAX) {
  records->clear();
  return ReadWith(
      [&](ByteReader& in, RouteOutput& out) {
        MrtReader reader(in, out);
        for (;;) {
          MrtRecord record;
          absl::StatusOr<bool> more = reader.Next(&record);
          if (!more.ok() || !*more) return more.status();
          records->push_back(absl::StrCat(record.place.offset, " ", record.type,
                                          "/", record.subtype, " ",
                                          record.body));
        }
      },
      std::move(bytes), strict, piece);
}

TEST(MrtReader, ReadsRecordsOfEveryKnownType) {
  const std::string bytes = Mrt(11, 0, "a") + Mrt(12, 1, "bc") +
                            Mrt(13, 2, "") + Mrt(16, 4, "d") + Mrt(17, 4, "") +
                            Mrt(32, 0, "") + Mrt(33, 0, "") + Mrt(48, 0, "") +
                            Mrt(49, 65535, "e");
  std::vector<std::string> records;
  for (const size_t piece : {size_t{1}, size_t{13}, SIZE_MAX}) {
    const Reading reading =
        ReadRecords(bytes, &records, /*strict=*/true, piece);
    EXPECT_EQ(reading.Summary(), "0 routes, 0 hops");
    EXPECT_THAT(records, ElementsAre("0 11/0 a", "13 12/1 bc", "27 13/2 ",
                                     "39 16/4 d", "52 17/4 ", "64 32/0 ",
                                     "76 33/0 ", "88 48/0 ", "100 49/65535 e"));
  }
}

TEST(MrtReader, SkipsUnknownTypes) {
  const std::string bytes =
      Mrt(13, 1, "a") + Mrt(14, 1, "b") + Mrt(0x4141, 1, "") + Mrt(13, 2, "c");
  std::vector<std::string> records;
  const Reading reading = ReadRecords(bytes, &records);
  EXPECT_EQ(reading.Summary(), "0 routes, 0 hops, 2 malformed");
  EXPECT_THAT(records, ElementsAre("0 13/1 a", "38 13/2 c"));
  ASSERT_EQ(reading.report.problems.size(), 2u);
  EXPECT_EQ(reading.report.problems[0].offset, 13u);
  EXPECT_EQ(reading.report.problems[0].line, 0u);
  EXPECT_THAT(reading.report.problems[0].message, HasSubstr("14"));
  EXPECT_EQ(reading.report.problems[1].offset, 26u);

  const Reading strict = ReadRecords(bytes, &records, /*strict=*/true);
  EXPECT_TRUE(absl::IsDataLoss(strict.status)) << strict.status;
  EXPECT_THAT(strict.status.message(), HasSubstr("at byte 13"));
  EXPECT_THAT(records, ElementsAre("0 13/1 a"));
}

TEST(MrtReader, BoundsARecord) {
  const std::string longest(kMaxMrtRecord, 'x');
  std::vector<std::string> records;
  Reading reading =
      ReadRecords(Mrt(13, 2, longest) + Mrt(13, 3, "a"), &records);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0], "0 13/2 " + longest);
  EXPECT_EQ(reading.report.malformed, 0u);

  reading = ReadRecords(Mrt(13, 2, longest + "x") + Mrt(13, 3, "a"), &records);
  EXPECT_THAT(records,
              ElementsAre(absl::StrCat(kMaxMrtRecord + 13, " 13/3 a")));
  EXPECT_EQ(reading.Summary(), "0 routes, 0 hops, 1 malformed");
  EXPECT_THAT(reading.report.problems[0].message, HasSubstr("16777217"));
}

TEST(MrtReader, AHugeLengthSkipsTheRest) {
  const std::string wild =
      absl::StrCat(U32(0), U16(13), U16(2), U32(0xffffffff));
  std::vector<std::string> records;
  const Reading reading =
      ReadRecords(Mrt(13, 1, "a") + wild + Mrt(13, 1, "b"), &records);
  EXPECT_EQ(reading.Summary(), "0 routes, 0 hops, 1 malformed, truncated");
  EXPECT_THAT(records, ElementsAre("0 13/1 a"));
  ASSERT_EQ(reading.report.problems.size(), 2u);
  EXPECT_EQ(reading.report.problems[0].offset, 13u);
  EXPECT_EQ(reading.report.problems[1].offset, 13u);
}

TEST(MrtReader, CutAnywhereKeepsTheRecordsBefore) {
  const std::string bytes = Mrt(13, 1, "abc") + Mrt(13, 2, "defgh");
  std::vector<std::string> records;
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const Reading reading = ReadRecords(bytes.substr(0, cut), &records);
    EXPECT_TRUE(reading.status.ok()) << reading.status;
    EXPECT_EQ(records.size(), (cut >= 15) + (cut >= bytes.size() ? 1u : 0u));
    const bool whole = cut == 0 || cut == 15 || cut == bytes.size();
    EXPECT_EQ(reading.report.truncated, !whole) << cut;
    EXPECT_EQ(reading.report.malformed, 0u);
    if (whole) {
      EXPECT_THAT(reading.report.problems, IsEmpty());
    } else {
      ASSERT_EQ(reading.report.problems.size(), 1u);
      EXPECT_EQ(reading.report.problems[0].offset, cut < 15 ? 0u : 15u);
      EXPECT_THAT(reading.report.problems[0].message, HasSubstr("ends"));
    }
    const Reading strict =
        ReadRecords(bytes.substr(0, cut), &records, /*strict=*/true);
    EXPECT_EQ(strict.status.ok(), whole) << cut;
  }
}

TEST(StartsLikeMrt, NeedsSixBytes) {
  const std::string record = Mrt(13, 1, "abc");
  for (size_t size = 0; size <= record.size(); ++size) {
    EXPECT_EQ(StartsLikeMrt(record.substr(0, size)), size >= 6) << size;
  }
  EXPECT_FALSE(StartsLikeMrt(Mrt(14, 1, "abc")));
  EXPECT_FALSE(StartsLikeMrt("2001:db8::/32 1\n"));
  EXPECT_FALSE(StartsLikeMrt(
      absl::StrCat(U32(0), U16(13), U16(1), U32(kMaxMrtRecord + 1))));
}

Peer MakePeer(absl::string_view address, uint32_t as_number) {
  return {*Address::Parse(address), as_number, kSomeBgpId};
}

TEST(ParsePeerTable, ReadsEveryKindOfPeer) {
  absl::StatusOr<std::vector<Peer>> peers = ParsePeerTable(
      PeerTableBody({PeerEntry("192.0.2.1", 64500, /*narrow_as=*/true),
                     PeerEntry("192.0.2.2", 4200000000),
                     PeerEntry("2001:db8::1", 65535, /*narrow_as=*/true),
                     PeerEntry("2001:db8::2", 64501)}));
  ASSERT_TRUE(peers.ok()) << peers.status();
  EXPECT_THAT(*peers, ElementsAre(MakePeer("192.0.2.1", 64500),
                                  MakePeer("192.0.2.2", 4200000000),
                                  MakePeer("2001:db8::1", 65535),
                                  MakePeer("2001:db8::2", 64501)));
  EXPECT_EQ((*peers)[1].Label(), "AS4200000000 peer 192.0.2.2");
  EXPECT_EQ((*peers)[3].Label(), "AS64501 peer 2001:db8::2");
  // Two sessions over links may have the same address.
  EXPECT_EQ((Peer{*Address::Parse("fe80::1"), 1, 0xc0000201}.Label()),
            "AS1 peer fe80::1 router 192.0.2.1");
  EXPECT_EQ((Peer{*Address::Parse("fe80::1"), 1, 0, 3}.Label()),
            "AS1 peer fe80::1 interface 3");
}

TEST(ParsePeerTable, MayBeEmptyOrFull) {
  EXPECT_THAT(*ParsePeerTable(PeerTableBody({})), IsEmpty());
  const std::vector<std::string> most(65535, PeerEntry("192.0.2.1", 1));
  EXPECT_EQ(ParsePeerTable(PeerTableBody(most))->size(), 65535u);
}

TEST(ParsePeerTable, CutAnywhereIsMalformed) {
  const std::string body = PeerTableBody(
      {PeerEntry("192.0.2.1", 1, /*narrow_as=*/true), PeerEntry("::1", 2)});
  for (size_t cut = 0; cut < body.size(); ++cut) {
    const absl::Status status = ParsePeerTable(body.substr(0, cut)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << cut;
    EXPECT_THAT(status.message(), HasSubstr("PEER_INDEX_TABLE ends"));
  }
}

TEST(ParsePeerTable, NamesTheDefect) {
  const auto expect = [](const std::string& body, const std::string& why) {
    EXPECT_THAT(ParsePeerTable(body).status().message(), HasSubstr(why));
  };
  expect(PeerTableBody({}) + "xy", "goes on for 2 bytes");
  expect(U32(1) + U16(0) + U16(65535), "ends inside peer 0 of 65535");
  expect(U32(1) + U16(65535) + "x", "ends before its peers");
}

TEST(ParseRibRecord, ReadsPrefixesOfEveryLength) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const Address ones = Address::FromBits(
        family, absl::Uint128Max() << (128 - AddressBits(family)));
    for (int length = 0; length <= AddressBits(family); ++length) {
      // All host bits in these bytes are set; the reader clears them.
      const std::string body = RibBody(
          absl::StrCat(ones.ToString(), "/", length), {Entry(3, "abc")});
      absl::StatusOr<RibRecord> record =
          ParseRibRecord(body, family, /*additional_paths=*/false);
      ASSERT_TRUE(record.ok()) << record.status();
      EXPECT_EQ(record->prefix, Prefix::Truncate(ones, length));
      ASSERT_EQ(record->entries.size(), 1u);
      EXPECT_EQ(record->entries[0].peer, 3);
      EXPECT_EQ(record->entries[0].attributes, "abc");
    }
  }
}

TEST(ParseRibRecord, ReadsEntriesInOrder) {
  for (const bool additional_paths : {false, true}) {
    const int64_t id = additional_paths ? 77 : -1;
    const std::string body =
        RibBody("2001:db8::/32", {Entry(65535, "first", id), Entry(0, "", id),
                                  Entry(7, std::string(65535, 'x'), id)});
    absl::StatusOr<RibRecord> record =
        ParseRibRecord(body, Family::kIpv6, additional_paths);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->prefix.ToString(), "2001:db8::/32");
    ASSERT_EQ(record->entries.size(), 3u);
    EXPECT_EQ(record->entries[0].peer, 65535);
    EXPECT_EQ(record->entries[0].attributes, "first");
    EXPECT_EQ(record->entries[1].attributes, "");
    EXPECT_EQ(record->entries[2].attributes.size(), 65535u);
    // The other form does not parse by chance.
    EXPECT_FALSE(ParseRibRecord(body, Family::kIpv6, !additional_paths).ok());
  }
}

TEST(ParseRibRecord, CutAnywhereIsMalformed) {
  const std::string body =
      RibBody("2001:db8::/32", {Entry(1, "first"), Entry(2, "second")});
  for (size_t cut = 0; cut < body.size(); ++cut) {
    const absl::Status status =
        ParseRibRecord(body.substr(0, cut), Family::kIpv6, false).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << cut;
    EXPECT_THAT(status.message(), HasSubstr("ends"));
  }
}

TEST(ParseRibRecord, NamesTheDefect) {
  const auto expect = [](Family family, const std::string& body,
                         const std::string& why) {
    const absl::Status status = ParseRibRecord(body, family, false).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(why));
  };
  expect(Family::kIpv4, U32(1) + U8(33) + U32(0) + U8(0) + U16(0),
         "IPv4 prefix of length 33");
  expect(Family::kIpv6, U32(1) + U8(129) + std::string(17, 'x') + U16(0),
         "IPv6 prefix of length 129");
  expect(Family::kIpv6, U32(1) + U8(0) + U16(65535),
         "::/0 ends inside entry 0 of 65535");
  expect(Family::kIpv6, RibBody("::/0", {Entry(1, "x")}) + "!",
         "::/0 goes on for 1 bytes");
}

// "2001:db8::/32: 3#77 abc", or the error.
std::string Generic(const std::string& body, bool additional_paths) {
  const auto record = ParseRibGeneric(body, additional_paths);
  if (!record.ok()) return std::string(record.status().message());
  if (!record->has_value()) return "nothing";
  std::string text = absl::StrCat((*record)->prefix.ToString(), ":");
  for (const RibEntry& entry : (*record)->entries) {
    absl::StrAppend(&text, " ", entry.peer, "#", entry.path_id, " ",
                    entry.attributes);
  }
  return text;
}

TEST(ParseRibGeneric, ReadsUnicastOfBothFamilies) {
  EXPECT_EQ(
      Generic(GenericBody(1, 1, Nlri("10.0.0.0/8"), {Entry(3, "abc")}), false),
      "10.0.0.0/8: 3#0 abc");
  EXPECT_EQ(Generic(GenericBody(2, 1, Nlri("2001:db8::/32"),
                                {Entry(3, "abc"), Entry(4, "")}),
                    false),
            "2001:db8::/32: 3#0 abc 4#0 ");
  for (const bool additional_paths : {false, true}) {
    for (const auto& [family, subsequent] :
         std::initializer_list<std::pair<uint16_t, uint8_t>>{
             {1, 2}, {2, 128}, {25, 70}, {0, 1}}) {
      EXPECT_EQ(
          Generic(GenericBody(family, subsequent, "any", {}), additional_paths),
          "nothing");
    }
  }
}

TEST(ParseRibGeneric, ReadsPathIdentifiersOfThePrefixOrOfTheEntries) {
  EXPECT_EQ(
      Generic(GenericBody(2, 1, Nlri("2001:db8::/32", 77), {Entry(3, "abc")}),
              true),
      "2001:db8::/32: 3#77 abc");
  EXPECT_EQ(Generic(GenericBody(1, 1, Nlri("10.0.0.0/8"),
                                {Entry(3, "abc", 77), Entry(4, "d", 78)}),
                    true),
            "10.0.0.0/8: 3#77 abc 4#78 d");
}

TEST(ParseRibGeneric, CutAnywhereIsMalformed) {
  const std::string body =
      GenericBody(2, 1, Nlri("2001:db8::/32"), {Entry(1, "first")});
  for (size_t cut = 0; cut < body.size(); ++cut) {
    EXPECT_THAT(Generic(body.substr(0, cut), false), HasSubstr(" ends "));
  }
  EXPECT_THAT(Generic(body + "x", false), HasSubstr("goes on for 1 bytes"));
}

// The body of a record.
std::string BodyOf(const std::string& record) {
  return record.substr(kMrtHeaderSize);
}

TEST(ParseTableDump, ReadsBothFamilies) {
  for (const auto& [family, prefix, peer] :
       std::initializer_list<std::tuple<Family, const char*, const char*>>{
           {Family::kIpv4, "192.0.2.128/25", "192.0.2.1"},
           {Family::kIpv6, "2001:db8::/32", "2001:db8::1"}}) {
    const std::string body = BodyOf(OldTableDump(prefix, peer, 64500, "abc"));
    const auto record = ParseTableDump(body, family);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->prefix.ToString(), prefix);
    EXPECT_EQ(record->peer, (Peer{*Address::Parse(peer), 64500}));
    EXPECT_EQ(record->attributes, "abc");
    for (size_t cut = 0; cut < body.size(); ++cut) {
      EXPECT_THAT(
          ParseTableDump(body.substr(0, cut), family).status().message(),
          HasSubstr("the TABLE_DUMP record ends"));
    }
    EXPECT_THAT(ParseTableDump(body + "xy", family).status().message(),
                HasSubstr("goes on for 2 bytes"));
  }
}

TEST(ParseTableDump, ClearsBitsPastTheLength) {
  const std::string body =
      BodyOf(OldTableDump("192.0.2.255/24", "192.0.2.1", 1, ""));
  EXPECT_EQ(ParseTableDump(body, Family::kIpv4)->prefix.ToString(),
            "192.0.2.0/24");
  EXPECT_THAT(
      ParseTableDump(BodyOf(OldTableDump("0.0.0.0/33", "192.0.2.1", 1, "")),
                     Family::kIpv4)
          .status()
          .message(),
      HasSubstr("IPv4 prefix of length 33"));
}

absl::StatusOr<Bgp4mpRecord> Parse(uint16_t subtype, const std::string& body,
                                   uint16_t type = kMrtBgp4mp) {
  return ParseBgp4mp({.timestamp = 1785420000,
                      .type = type,
                      .subtype = subtype,
                      .body = body});
}

TEST(ParseBgp4mp, ReadsEverySubtypeOfMessages) {
  for (const uint16_t subtype :
       std::initializer_list<uint16_t>{1, 4, 6, 7, 8, 9, 10, 11}) {
    const bool narrow =
        subtype == 1 || subtype == 6 || subtype == 8 || subtype == 10;
    for (const char* peer : {"192.0.2.1", "2001:db8::1"}) {
      const std::string body = SessionBody(peer, 64500, "message", narrow);
      const auto record = Parse(subtype, body);
      ASSERT_TRUE(record.ok()) << record.status();
      EXPECT_EQ(record->kind, Bgp4mpRecord::kMessage);
      EXPECT_EQ(record->peer, (Peer{*Address::Parse(peer), 64500}));
      EXPECT_EQ(record->at, absl::FromUnixSeconds(1785420000));
      EXPECT_EQ(record->local, subtype == 6 || subtype == 7 || subtype >= 10);
      EXPECT_EQ(record->additional_paths, subtype >= 8);
      EXPECT_EQ(record->message, "message");
    }
  }
}

TEST(ParseBgp4mp, ReadsMicroseconds) {
  const std::string session = SessionBody("::1", 4200000000, "m");
  for (const uint32_t micros : {0u, 1u, 999999u}) {
    const std::string body = U32(micros) + session;
    const auto record = Parse(4, body, kMrtBgp4mpEt);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->at, absl::FromUnixMicros(1785420000000000 + micros));
    EXPECT_EQ(record->peer.as_number, 4200000000u);
    EXPECT_EQ(record->message, "m");
  }
  const auto late = Parse(4, U32(1000000) + session, kMrtBgp4mpEt);
  EXPECT_THAT(late.status().message(), HasSubstr("1000000 microseconds"));
}

TEST(ParseBgp4mp, ReadsStateChanges) {
  const std::string states = U16(5) + U16(6);
  EXPECT_EQ(Parse(0, SessionBody("::1", 1, states, true))->kind,
            Bgp4mpRecord::kStateChange);
  EXPECT_EQ(Parse(5, SessionBody("::1", 1, states))->kind,
            Bgp4mpRecord::kStateChange);
  for (const std::string& rest : {std::string(), U16(5), states + "x"}) {
    const auto record = Parse(5, SessionBody("::1", 1, rest));
    EXPECT_TRUE(absl::IsInvalidArgument(record.status()));
    EXPECT_THAT(record.status().message(), HasSubstr("two states"));
  }
}

TEST(ParseBgp4mp, DoesNotParseOtherSubtypes) {
  for (const uint16_t subtype :
       std::initializer_list<uint16_t>{2, 3, 12, 65535}) {
    EXPECT_EQ(Parse(subtype, "anything")->kind, Bgp4mpRecord::kOther);
  }
}

TEST(ParseBgp4mp, ASessionCutAnywhereIsMalformed) {
  for (const char* peer : {"192.0.2.1", "::1"}) {
    const std::string body = U32(0) + SessionBody(peer, 1, "");
    for (size_t cut = 0; cut <= body.size(); ++cut) {
      const auto record = Parse(4, body.substr(0, cut), kMrtBgp4mpEt);
      EXPECT_EQ(record.ok(), cut == body.size()) << cut;
    }
  }
}

TEST(ParseBgp4mp, RefusesPeersOfOtherFamilies) {
  for (const uint16_t family : std::initializer_list<uint16_t>{0, 3, 256}) {
    const std::string body =
        absl::StrCat(U32(1), U32(2), U16(0), U16(family), std::string(40, 'x'));
    EXPECT_THAT(Parse(4, body).status().message(),
                HasSubstr(absl::StrCat("address family ", family)));
  }
}

}  // namespace
}  // namespace planb
