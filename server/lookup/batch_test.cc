// SPDX-License-Identifier: Apache-2.0

// Batches without the network, with and without flow hashes.

#include "server/lookup/batch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "server/base/error.h"
#include "server/testing/make_snapshot.h"

namespace planb::server {
namespace {

constexpr NextHopId kGroup = 1000;

std::string Packed(absl::string_view text) {
  return Address::Parse(text)->ToPacked();
}

std::string Hashes(const std::vector<uint32_t>& hashes) {
  std::string bytes;
  for (const uint32_t hash : hashes) {
    for (int shift = 0; shift < 32; shift += 8) {
      bytes += static_cast<char>(hash >> shift & 0xff);
    }
  }
  return bytes;
}

// A batch with fields of one piece each.
class OwnedBatch {
 public:
  OwnedBatch(std::string v6, std::string v4, std::string upper,
             std::string hashes)
      : fields_{std::move(v6), std::move(v4), std::move(upper),
                std::move(hashes)},
        pieces_(fields_.begin(), fields_.end()) {
    batch.request.addresses_v6 = Field(0);
    batch.request.addresses_v4 = Field(1);
    batch.request.upper_halves_v6 = Field(2);
    batch.request.flow_hashes = Field(3);
    batch.addresses = CountAddresses(batch.request);
  }
  OwnedBatch(const OwnedBatch&) = delete;
  OwnedBatch& operator=(const OwnedBatch&) = delete;

  Batch batch;

 private:
  wire::Bytes Field(size_t i) const {
    return wire::Bytes(wire::Pieces(pieces_).subspan(i, 1), 0,
                       fields_[i].size());
  }

  const std::vector<std::string> fields_;
  const std::vector<absl::string_view> pieces_;
};

std::unique_ptr<const Snapshot> TableWithGroup(const FibOptions& options = {}) {
  return MakeSnapshot(
      1,
      {{*Prefix::Parse("10.0.0.0/8"), kGroup},
       {*Prefix::Parse("11.0.0.0/8"), 5},
       {*Prefix::Parse("2001:db8::/32"), kGroup},
       {*Prefix::Parse("2001:db8:0:1::1/128"), 6}},
      {}, {{.id = kGroup, .members = {{1, 1}, {2, 3}, {3, 1}}, .label = ""}},
      options);
}

struct Answers {
  std::vector<NextHopId> next_hops;
  std::string prefix_lengths;
  size_t misses = 0;
};

Answers Answer(const Snapshot& snapshot, const Batch& batch) {
  EXPECT_TRUE(CheckBatch(batch, {}).ok());
  Answers answers;
  answers.next_hops.resize(batch.addresses);
  if (batch.request.want_prefix_lengths) {
    answers.prefix_lengths.resize(batch.addresses);
  }
  answers.misses =
      AnswerBatch(snapshot, *AvailableKernels().front(), batch,
                  {reinterpret_cast<char*>(answers.next_hops.data()),
                   answers.prefix_lengths.data()});
  if (snapshot.fib_options().prefix_lengths) return answers;
  // In slices of all sizes.
  for (size_t from = 0, count = 1; from < answers.prefix_lengths.size();
       from += count, ++count) {
    count = std::min(count, batch.addresses - from);
    AnswerLengths(snapshot, batch, from, count, answers.prefix_lengths.data());
  }
  return answers;
}

TEST(Batch, HashesSelectMembersInOrderOfAnswers) {
  const auto snapshot = TableWithGroup();
  const GroupTable& groups = snapshot->groups();
  // Of each form: a group, another next hop, no route.
  const std::string v6 =
      Packed("2001:db8::1") + Packed("2001:db8:0:1::1") + Packed("2001:db9::");
  const std::string v4 =
      Packed("10.1.1.1") + Packed("11.0.0.0") + Packed("9.9.9.9");
  const std::string upper = Packed("2001:db8:7::").substr(0, 8) +
                            Packed("2001:db8:0:1::").substr(0, 8) +
                            Packed("2001:db9::").substr(0, 8);
  bool differed = false;
  for (uint32_t flow = 0; flow < 100; ++flow) {
    std::vector<uint32_t> hashes;
    for (uint32_t i = 0; i < 9; ++i) hashes.push_back(flow * 1000 + i);
    OwnedBatch owned(v6, v4, upper, Hashes(hashes));
    const Answers answers = Answer(*snapshot, owned.batch);
    const auto member = [&](size_t i) {
      return groups.Choose(kGroup, hashes[i]);
    };
    EXPECT_EQ(
        answers.next_hops,
        (std::vector<NextHopId>{member(0), 6, kNoRoute, member(3), 5, kNoRoute,
                                member(6), kUndecided, kNoRoute}));
    EXPECT_EQ(answers.misses, 3u);
    differed |= member(0) != member(3) || member(3) != member(6);
  }
  EXPECT_TRUE(differed);
}

TEST(Batch, AnswersGroupWithoutHashes) {
  const auto snapshot = TableWithGroup();
  OwnedBatch owned(Packed("2001:db8::1"), Packed("10.0.0.0"), "", "");
  EXPECT_EQ(Answer(*snapshot, owned.batch).next_hops,
            (std::vector<NextHopId>{kGroup, kGroup}));
}

TEST(Batch, IgnoresHashesWithoutGroups) {
  const auto snapshot =
      MakeSnapshot(1, {{*Prefix::Parse("10.0.0.0/8"), kGroup}});
  EXPECT_TRUE(snapshot->groups().empty());
  OwnedBatch owned("", Packed("10.0.0.0"), "", Hashes({7}));
  EXPECT_EQ(Answer(*snapshot, owned.batch).next_hops,
            std::vector<NextHopId>{kGroup});
}

TEST(Batch, AnswersHashesWithPrefixLengths) {
  for (const bool kept : {false, true}) {
    const auto snapshot = TableWithGroup({.prefix_lengths = kept});
    OwnedBatch owned(Packed("2001:db8::1") + Packed("2001:db9::"),
                     Packed("10.0.0.0"), "", Hashes({7, 8, 9}));
    owned.batch.request.want_prefix_lengths = true;
    const Answers answers = Answer(*snapshot, owned.batch);
    EXPECT_EQ(answers.prefix_lengths, "\x20\xff\x08");
    EXPECT_EQ(answers.next_hops[0], snapshot->groups().Choose(kGroup, 7));
    EXPECT_EQ(answers.misses, 1u);
  }
}

// Where lengths are kept, they cost no more than next hops.
TEST(Batch, BoundsPrefixLengthsOnlyOfATableThatDoesNotKeepThem) {
  OwnedBatch owned(Packed("::1") + Packed("::2"), "", "", "");
  owned.batch.request.want_prefix_lengths = true;
  const LookupLimits limits = {.max_batch_addresses = 2,
                               .max_lookup_addresses = 1};
  EXPECT_EQ(ErrorReason(CheckBatch(owned.batch, limits)), "BATCH_TOO_LARGE");
  const FibOptions kept = {.prefix_lengths = true};
  EXPECT_TRUE(CheckBatch(owned.batch, limits, kept).ok());
  EXPECT_EQ(
      ErrorReason(CheckBatch(owned.batch, {.max_batch_addresses = 1}, kept)),
      "BATCH_TOO_LARGE");
}

TEST(Batch, RefusesHashesOfWrongLength) {
  const std::string v6 = Packed("::1");
  const std::string v4 = Packed("1.1.1.1");
  const std::string upper(8, '\0');
  for (size_t bytes = 0; bytes <= 20; ++bytes) {
    OwnedBatch owned(v6, v4, upper, std::string(bytes, 'x'));
    const absl::Status status = CheckBatch(owned.batch, {});
    if (bytes == 0 || bytes == 12) {
      EXPECT_TRUE(status.ok()) << bytes;
      continue;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bytes;
    EXPECT_EQ(ErrorReason(status), "FLOW_HASHES_LENGTH");
    EXPECT_EQ(ErrorField(status), "flow_hashes");
  }
  // Errors of addresses come first.
  OwnedBatch odd("odd", "", "", "odd");
  EXPECT_EQ(ErrorReason(CheckBatch(odd.batch, {})), "ADDRESSES_LENGTH");
  // Hashes without addresses.
  OwnedBatch none("", "", "", Hashes({1}));
  EXPECT_EQ(ErrorReason(CheckBatch(none.batch, {})), "FLOW_HASHES_LENGTH");
}

}  // namespace
}  // namespace planb::server
