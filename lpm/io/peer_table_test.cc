#include "lpm/io/peer_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "lpm/io/testing/bytes.h"

namespace planb {
namespace {

using ::planb::testing::PeerEntry;
using ::planb::testing::PeerTableBody;
using ::planb::testing::U16;
using ::planb::testing::U32;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Peer MakePeer(absl::string_view address, uint32_t as_number) {
  return {*Address::Parse(address), as_number};
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

TEST(ParsePeerTable, SaysWhatIsWrong) {
  EXPECT_THAT(ParsePeerTable(PeerTableBody({}) + "xy").status().message(),
              HasSubstr("goes on for 2 octets"));
  EXPECT_THAT(ParsePeerTable(absl::StrCat(U32(1), U16(0), U16(65535)))
                  .status()
                  .message(),
              HasSubstr("ends inside peer 0 of 65535"));
  EXPECT_THAT(
      ParsePeerTable(absl::StrCat(U32(1), U16(65535), "x")).status().message(),
      HasSubstr("ends before its peers"));
}

}  // namespace
}  // namespace planb
