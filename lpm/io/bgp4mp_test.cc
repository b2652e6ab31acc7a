#include "lpm/io/bgp4mp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "lpm/io/testing/bgp_bytes.h"
#include "lpm/io/testing/bytes.h"

namespace planb {
namespace {

using ::planb::testing::SessionBody;
using ::planb::testing::U16;
using ::planb::testing::U32;
using ::testing::HasSubstr;

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

TEST(ParseBgp4mp, LeavesOtherSubtypesAlone) {
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
