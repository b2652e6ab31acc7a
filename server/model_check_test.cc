// SPDX-License-Identifier: Apache-2.0

// Tests of the checker: it accepts a good history, and finds the fault in each
// bad one, which differs from the good one in one thing only.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "server/testing/model.h"

namespace planb::server {
namespace {

using Op = RouteChange::Op;
using Kind = WriteCall::Kind;
using Outcome = WriteCall::Outcome;

const Prefix kWide = *Prefix::Parse("10.0.0.0/8");
const Prefix kLong = *Prefix::Parse("10.1.0.0/16");
const Address kProbe = Address::V4(10U << 24 | 1U << 16);

UpdateBatch Change(Op op, const Prefix& prefix, NextHopId next_hop) {
  UpdateBatch batch;
  batch.changes = {{op, prefix, next_hop}};
  return batch;
}

std::string Digest(const std::map<Prefix, NextHopId>& routes) {
  ModelTable table;
  table.routes = routes;
  return DigestOf(table);
}

// Three generations: 1 adds the /8; 2, with a request id and repeated after a
// crash, adds the /16; 3 withdraws the /8. The outcome of 3 is unknown to its
// writer, and only the watch shows it.
class ModelCheck : public testing::Test {
 protected:
  enum Write { kAddWide, kAddLong, kRepeat, kNothing, kExists, kLost, kGone };
  enum Lookup { kOfWide, kOfLong, kAsked, kTooSoon, kLast };

  ModelCheck() {
    h_.probes = {kProbe};
    h_.lives = {{0, kNever, 350}, {360, 900, 950}};

    Done(Change(Op::kUpsert, kWide, 1), 100, 150, 1, {.added = 1});
    UpdateBatch named = Change(Op::kInsert, kLong, 2);
    named.request_id = "a";
    named.writer_epoch = 5;
    Done(named, 200, 250, 2, {.added = 1});
    Done(named, 400, 450, 2, {.added = 1});
    UpdateBatch nothing = Change(Op::kUpsert, kWide, 1);
    nothing.writer_epoch = 5;
    Done(nothing, 460, 470, 2, {.unchanged = 1});
    UpdateBatch exists = Change(Op::kInsert, kLong, 3);
    exists.writer_epoch = 5;
    Refused(exists, 480, 490, "ROUTE_EXISTS");
    UpdateBatch lost = Change(Op::kDelete, kWide, kNoRoute);
    lost.writer_epoch = 5;
    h_.writes.push_back({.batch = lost, .begin = 500, .end = 520});
    UpdateBatch gone = Change(Op::kDeleteStrict, kWide, kNoRoute);
    gone.writer_epoch = 5;
    Refused(gone, 600, 650, "ROUTE_NOT_FOUND");
    for (WriteCall& call : h_.writes) {
      if (call.outcome != Outcome::kDone) continue;
      call.digest = call.generation == 1 ? Digest({{kWide, 1}})
                                         : Digest({{kWide, 1}, {kLong, 2}});
    }

    h_.lookups = {{.stream = 1,
                   .begin = 160,
                   .end = 170,
                   .generation = 1,
                   .answers = {1}},
                  {.stream = 1,
                   .begin = 260,
                   .end = 270,
                   .generation = 2,
                   .answers = {2}},
                  {.stream = 2,
                   .begin = 410,
                   .end = 420,
                   .min_generation = 2,
                   .generation = 2,
                   .answers = {2}},
                  {.begin = 430,
                   .end = 440,
                   .min_generation = 3,
                   .not_visible = true,
                   .generation = 2,
                   .answers = {}},
                  {.stream = 2,
                   .begin = 700,
                   .end = 710,
                   .generation = 3,
                   .answers = {2}}};
    h_.routes = {{610, 620, kWide, kNoRoute}};
    h_.explains = {{455, 465, 2, kProbe, {{kLong, 2}, {kWide, 1}}, 2}};
    h_.lists = {{455, 466, 2, {{kWide, 1}, {kLong, 2}}}};
    h_.states = {{457, 467, 2, 2, 2, Digest({{kWide, 1}, {kLong, 2}})}};
    h_.watches = {
        {.begin = 90,
         .end = 350,
         .start_generation = 0,
         .out_of_range = false,
         .messages = {Bookmark(95, 0), Message(155, 1, kWide, 1),
                      Message(255, 2, kLong, 2)}},
        {.begin = 390,
         .end = 650,
         .start_generation = 2,
         .out_of_range = false,
         .messages = {Bookmark(395, 2), Message(530, 3, kWide, kNoRoute)}}};
  }

  void Done(const UpdateBatch& batch, Instant begin, Instant end,
            uint64_t generation, const ChangeCounts& counts) {
    h_.writes.push_back({.batch = batch,
                         .begin = begin,
                         .end = end,
                         .outcome = Outcome::kDone,
                         .generation = generation,
                         .counts = counts,
                         .visible = generation,
                         .acked_visible = true});
  }
  void Refused(const UpdateBatch& batch, Instant begin, Instant end,
               const std::string& reason) {
    h_.writes.push_back({.batch = batch,
                         .begin = begin,
                         .end = end,
                         .outcome = Outcome::kRefused,
                         .reason = reason});
  }
  static WatchCall::Message Bookmark(Instant at, uint64_t generation) {
    return {at, true, {.generation = generation}};
  }
  static WatchCall::Message Message(Instant at, uint64_t generation,
                                    const Prefix& prefix, NextHopId next_hop) {
    return {at,
            true,
            {.generation = generation,
             .routes = {{prefix, next_hop}},
             .digest = generation == 1   ? Digest({{kWide, 1}})
                       : generation == 2 ? Digest({{kWide, 1}, {kLong, 2}})
                                         : Digest({{kLong, 2}})}};
  }

  // Expects that the checker finds a fault of that kind with these words.
  void ExpectFault(const char* kind, const char* words) {
    const std::vector<std::string> faults = CheckHistory(h_);
    bool found = false;
    for (const std::string& fault : faults) {
      found |= absl::StartsWith(fault, kind) && absl::StrContains(fault, words);
    }
    EXPECT_TRUE(found) << "wanted " << kind << ": ... " << words << "\ngot "
                       << absl::StrJoin(faults, "\n    ");
  }

  WatchCall::Message& Watched(size_t watch, size_t message) {
    return h_.watches[watch].messages[message];
  }

  ModelHistory h_;
};

TEST_F(ModelCheck, AGoodHistoryIsGood) {
  EXPECT_EQ(absl::StrJoin(CheckHistory(h_), "\n"), "");
  // A batch of unknown outcome may leave no trace.
  h_.writes[kGone] = h_.writes[kNothing];
  h_.lookups.pop_back();
  h_.routes.clear();
  h_.watches.pop_back();
  EXPECT_EQ(absl::StrJoin(CheckHistory(h_), "\n"), "");
}

// It may be all that a generation changes, and then comes as a bookmark.
TEST_F(ModelCheck, AWordThatTheTableIsCompleteMakesAGeneration) {
  UpdateBatch word;
  word.writer_epoch = 5;
  word.complete = true;
  Done(word, 720, 730, 4, {});
  h_.writes.back().digest = Digest({{kLong, 2}});
  WatchCall::Message said = Bookmark(725, 4);
  said.delta.digest = Digest({{kLong, 2}});
  said.complete_table = true;
  h_.watches[1].end = 750;
  h_.watches[1].messages.push_back(said);
  EXPECT_EQ(absl::StrJoin(CheckHistory(h_), "\n"), "");
  Watched(1, 2).complete_table = false;
  ExpectFault("order", "it was told to be not complete");
  Watched(1, 2).complete_table = true;
  Done(word, 735, 740, 5, {});
  h_.writes.back().digest = Digest({{kLong, 2}});
  ExpectFault("order", "changes nothing");
}

// 1. One sequence.

TEST_F(ModelCheck, TwoBatchesOfOneGeneration) {
  h_.writes[kNothing].batch = Change(Op::kUpsert, kLong, 9);
  h_.writes[kNothing].batch.writer_epoch = 5;
  h_.writes[kNothing].counts = {.changed = 1};
  ExpectFault("answer", "another batch made that generation");
}

TEST_F(ModelCheck, AGenerationWithoutAMaker) {
  h_.writes.erase(h_.writes.begin() + kLost);
  ExpectFault("order", "generation 3 of 3 has no maker");
}

TEST_F(ModelCheck, WrongCounts) {
  h_.writes[kAddWide].counts = {.changed = 1};
  ExpectFault("order", "was told +0 ~1");
}

TEST_F(ModelCheck, WrongCountsOfABatchThatChangedNothing) {
  h_.writes[kNothing].counts = {.unchanged = 2};
  ExpectFault("answer", "was told +0 ~0 -0 =2");
}

TEST_F(ModelCheck, WrongDigest) {
  h_.writes[kAddWide].digest[0] ^= 1;
  ExpectFault("order", "ack: digest differs");
}

TEST_F(ModelCheck, WrongDigestOfTheTable) {
  h_.states[0].digest[0] ^= 1;
  ExpectFault("order", "GetTable: digest differs");
}

TEST_F(ModelCheck, ARefusalWithoutReason) {
  h_.writes[kExists].batch.changes[0].op = Op::kUpsert;
  ExpectFault("refusal", "none of the generations");
}

TEST_F(ModelCheck, AStrictChangeThatShouldBeRefused) {
  h_.writes[kAddWide].batch.changes[0].op = Op::kReplace;
  ExpectFault("order", "should be refused for ROUTE_NOT_FOUND");
}

TEST_F(ModelCheck, AWrongExpectationAccepted) {
  h_.writes[kAddWide].batch.expected_generation = 7;
  ExpectFault("order", "should be refused for GENERATION_MISMATCH");
}

TEST_F(ModelCheck, ARightExpectationRefused) {
  h_.writes[kExists].batch.expected_generation = 2;
  h_.writes[kExists].reason = "GENERATION_MISMATCH";
  ExpectFault("refusal", "none of the generations 2..2");
}

TEST_F(ModelCheck, AStaleWriterAccepted) {
  h_.writes[kNothing].batch.writer_epoch = 4;
  ExpectFault("fence", "although epoch 5");
}

TEST_F(ModelCheck, AStaleWriterMadeAGeneration) {
  h_.writes[kLost].batch.writer_epoch = 4;
  ExpectFault("order", "should be fenced");
}

TEST_F(ModelCheck, AWriterFencedWithoutASuccessor) {
  h_.writes[kExists].reason = "WRITER_FENCED";
  ExpectFault("refusal", "no writer has taken over");
}

TEST_F(ModelCheck, AValidationThatWasWrong) {
  h_.writes[kNothing].batch = Change(Op::kUpsert, kWide, 4);
  h_.writes[kNothing].batch.writer_epoch = 5;
  h_.writes[kNothing].batch.validate_only = true;
  ExpectFault("answer", "the model says +0 ~1");
}

TEST_F(ModelCheck, DrainingWithoutADrain) {
  h_.writes[kExists].reason = "DRAINING";
  ExpectFault("refusal", "no server drained");
}

TEST_F(ModelCheck, ABatchSentAfterItsAnswer) {
  // The batch was sent after its generation was seen.
  h_.writes[kLost].begin = 540;
  ExpectFault("order", "generation 3 of 3 has no maker");
}

TEST_F(ModelCheck, AStreamOutOfOrder) {
  for (const Write write : {kAddWide, kNothing}) h_.writes[write].stream = 7;
  std::swap(h_.writes[kAddWide], h_.writes[kNothing]);
  ExpectFault("stream", "after generation 2");
}

// 2. Lookups.

TEST_F(ModelCheck, AWrongAnswer) {
  h_.lookups[kOfLong].answers = {1};
  ExpectFault("lookup", "10.1.0.0 -> 1 instead of 2 at generation 2");
}

TEST_F(ModelCheck, AStreamThatGoesBack) {
  h_.lookups[kOfWide] = h_.lookups[kOfLong];
  h_.lookups[kOfLong].begin = 205;
  h_.lookups[kOfLong].end = 280;
  h_.lookups[kOfLong].generation = 1;
  h_.lookups[kOfLong].answers = {1};
  ExpectFault("back", "from generation 2 back to 1");
}

TEST_F(ModelCheck, AStaleLookupAfterAVisibleAck) {
  h_.lookups[kOfLong] = {
      .begin = 260, .end = 270, .generation = 1, .answers = {1}};
  ExpectFault("stale", "saw generation 1 although 2");
}

TEST_F(ModelCheck, AnAckBeforeVisibility) {
  h_.writes[kAddLong].visible = 1;
  ExpectFault("ack", "while 1 was visible");
}

TEST_F(ModelCheck, TwoReadersThatDisagree) {
  for (const Write write : {kAddLong, kRepeat, kNothing}) {
    h_.writes[write].acked_visible = false;
    h_.writes[write].visible = 1;
  }
  h_.watches[0].messages.pop_back();
  h_.lookups.insert(
      h_.lookups.begin() + kAsked,
      {.begin = 275, .end = 280, .generation = 1, .answers = {1}});
  ExpectFault("stale", "lookup [275..280] saw generation 1 although 2");
}

TEST_F(ModelCheck, AMinimumThatWasIgnored) {
  h_.lookups[kAsked].min_generation = 3;
  ExpectFault("min_generation", "3 was answered by 2");
}

TEST_F(ModelCheck, AMinimumRefusedThoughVisible) {
  h_.lookups[kTooSoon].min_generation = 2;
  ExpectFault("min_generation", "2 was refused");
}

TEST_F(ModelCheck, ALookupThatSeesAnUnsentBatch) {
  h_.lookups[kOfWide].end = 165;
  h_.lookups[kOfWide].generation = 2;
  h_.lookups[kOfWide].answers = {2};
  // The batch that it saw was sent at 200.
  ExpectFault("order", "real time is violated");
}

TEST_F(ModelCheck, WrongReads) {
  h_.routes[0].next_hop = 8;
  ExpectFault("route", "had never the next hop 8");
  h_.explains[0].matches.pop_back();
  ExpectFault("explain", "1 matches, 2 expected");
  h_.states[0].visible = 1;
  ExpectFault("state", "visible 1");
  h_.lists[0].routes.pop_back();
  ExpectFault("order", "list: routes differ");
}

// Two writes of unknown outcome may have made the last generation. Only a
// lookup tells which did.
TEST_F(ModelCheck, ALookupTellsWhichOfTwoWasLost) {
  h_.watches[1].messages.pop_back();
  h_.watches[1].end = 525;
  h_.routes.clear();
  h_.writes.erase(h_.writes.begin() + kGone);
  UpdateBatch other = Change(Op::kUpsert, kLong, 9);
  other.writer_epoch = 5;
  h_.writes.push_back({.batch = other, .begin = 500, .end = 520});
  EXPECT_THAT(CheckHistory(h_), testing::IsEmpty());
  h_.lookups[kLast].answers = {9};
  EXPECT_THAT(CheckHistory(h_), testing::IsEmpty());
  h_.lookups[kLast].answers = {8};
  ExpectFault("order", "lookup: 10.1.0.0 differs");
}

// 3. Crashes.

TEST_F(ModelCheck, AnAcknowledgedBatchLost) {
  // After the crash another batch has its generation.
  h_.watches.pop_back();
  h_.watches[0].messages.pop_back();
  h_.writes[kRepeat].batch.request_id = "b";
  ExpectFault("answer", "another batch made that generation");
}

TEST_F(ModelCheck, AnOlderTableAfterTheCrash) {
  // The batch was accepted and not seen before the crash; the next server lacks
  // it.
  for (const Write write : {kAddLong, kRepeat, kNothing}) {
    h_.writes[write].acked_visible = false;
    h_.writes[write].visible = 0;
  }
  h_.lookups.erase(h_.lookups.begin() + kOfLong);
  h_.watches[0].messages.pop_back();
  h_.watches.erase(h_.watches.begin() + 1);
  h_.lookups[1] = {.begin = 370, .end = 380, .generation = 1, .answers = {1}};
  ExpectFault("stale", "lookup [370..380] saw generation 1 although 2");
}

TEST_F(ModelCheck, ABatchThatHappenedInPart) {
  h_.writes[kLost].batch.changes.push_back({Op::kUpsert, kLong, 6});
  ExpectFault("order", "generation 3 of 3 has no maker");
}

TEST_F(ModelCheck, AnUnknownBatchThatHappenedTwice) {
  // The /8 is added again, and a withdrawal without a writer follows.
  UpdateBatch again = Change(Op::kUpsert, kWide, 1);
  again.writer_epoch = 5;
  Done(again, 720, 730, 4, {.added = 1});
  h_.lookups.push_back(
      {.begin = 740, .end = 750, .generation = 5, .answers = {2}});
  ExpectFault("order", "generation 5 of 5 has no maker");
}

TEST_F(ModelCheck, ABatchThatOutlivesItsServer) {
  // The server that got the batch was dead when the next one showed a table
  // without it: the batch cannot take effect later.
  h_.writes[kLost].begin = 300;
  h_.writes[kLost].end = 340;
  ExpectFault("stale", "saw generation 2 although 3 was visible");
}

TEST_F(ModelCheck, ARepeatWithAnotherAnswer) {
  h_.writes[kRepeat].counts = {.unchanged = 1};
  ExpectFault("repeat", "was first told");
}

TEST_F(ModelCheck, ARepeatThatIsRefused) {
  h_.writes[kRepeat].outcome = Outcome::kRefused;
  h_.writes[kRepeat].reason = "ROUTE_EXISTS";
  ExpectFault("refusal", "a repeat; generation 2 has it");
}

// Of two writes of unknown outcome only the second happened. The answer to a
// batch that changed nothing shows that.
TEST_F(ModelCheck, AnAnswerTellsWhichOfTwoWasLost) {
  h_.watches[1].end = 525;
  h_.watches[1].messages.pop_back();  // the watch misses generation 3
  h_.lookups.pop_back();
  h_.routes.clear();
  UpdateBatch also = Change(Op::kUpsert, kWide, 9);
  also.writer_epoch = 5;
  h_.writes.insert(h_.writes.begin() + kLost,
                   {.batch = also, .begin = 500, .end = 520});
  Done(h_.writes[kLost + 1].batch, 700, 710, 3, {.unchanged = 1});
  EXPECT_THAT(CheckHistory(h_), testing::IsEmpty());
  h_.writes.back().generation = 2;
  ExpectFault("answer", "should have made a generation");
}

// 4. Watches.

TEST_F(ModelCheck, AWatchThatSkips) {
  h_.watches[0].messages.erase(h_.watches[0].messages.begin() + 1);
  ExpectFault("watch", "generation 2 after 0");
}

TEST_F(ModelCheck, AWatchThatRepeats) {
  h_.watches[0].messages.push_back(Watched(0, 2));
  ExpectFault("watch", "generation 2 after 2");
}

TEST_F(ModelCheck, AWatchWithAnotherDelta) {
  Watched(0, 1).delta.routes[0].next_hop = 7;
  ExpectFault("order", "watch: routes are {10.0.0.0/8=7 }");
}

TEST_F(ModelCheck, AWatchWithAnotherDigest) {
  Watched(0, 1).delta.digest[3] ^= 1;
  ExpectFault("order", "watch: the digest differs");
}

TEST_F(ModelCheck, ABookmarkAhead) {
  Watched(1, 0).delta.generation = 1;
  ExpectFault("watch", "bookmark 1 after 2");
}

TEST_F(ModelCheck, ABookmarkWithAnotherDigest) {
  Watched(1, 0).delta.digest = Digest({});
  ExpectFault("order", "bookmark: digest differs");
}

TEST_F(ModelCheck, AnInterruptedGeneration) {
  Watched(0, 1).complete = false;
  Watched(0, 1).delta.digest.clear();
  ExpectFault("watch", "generation 2 after 0");
}

TEST_F(ModelCheck, AHistoryThatIsDenied) {
  h_.watches.push_back({.begin = 540,
                        .end = 545,
                        .start_generation = 3,
                        .out_of_range = true,
                        .messages = {}});
  ExpectFault("history", "generation 3 was denied");
}

// 5. Next hops, groups and snapshots.

// Generation 4 replaces everything by the /8, a next hop and a group. A list
// shows the objects.
class ModelCheckObjects : public ModelCheck {
 protected:
  ModelCheckObjects() {
    UpdateBatch snapshot;
    snapshot.replacement = {{kWide, 1}};
    snapshot.next_hops = {Hop(1)};
    snapshot.groups = {{.id = 21, .members = {{1, 1}}}};
    snapshot.replace_next_hops = true;
    snapshot.writer_epoch = 5;
    Done(snapshot, 720, 730, 4, {.added = 1, .removed = 1});
    h_.writes.back().kind = Kind::kImport;
    h_.objects = {{740, 750, 4, snapshot.next_hops, snapshot.groups}};
    UpdateBatch used;
    used.deleted_next_hops = {1};
    used.writer_epoch = 5;
    Refused(used, 760, 770, "NEXT_HOP_IN_USE");
    h_.writes.back().kind = Kind::kNextHops;
  }

  static NextHop Hop(NextHopId id) {
    NextHop next_hop;
    next_hop.id = id;
    return next_hop;
  }

  UpdateBatch& Snapshot() { return h_.writes[h_.writes.size() - 2].batch; }
};

TEST_F(ModelCheckObjects, AGoodHistoryIsGood) {
  EXPECT_THAT(CheckHistory(h_), testing::IsEmpty());
}

TEST_F(ModelCheckObjects, AListWithAnotherNextHop) {
  h_.objects[0].next_hops[0].label = "other";
  ExpectFault("order", "list: next hops differ");
}

TEST_F(ModelCheckObjects, AListWithoutAGroup) {
  h_.objects[0].groups.clear();
  ExpectFault("order", "list: groups differ");
}

TEST_F(ModelCheckObjects, AnOldListOfObjects) {
  h_.objects[0].generation = 3;
  h_.objects[0].next_hops.clear();
  h_.objects[0].groups.clear();
  ExpectFault("stale", "objects [740..750] saw generation 3");
}

TEST_F(ModelCheckObjects, AnUnusedNextHopInUse) {
  h_.writes.back().batch.deleted_next_hops = {};
  h_.writes.back().batch.deleted_groups = {21};
  ExpectFault("refusal", "none of the generations 4..4");
}

TEST_F(ModelCheckObjects, ASnapshotThatKeepsWhatItLacks) {
  UpdateBatch before;
  before.next_hops = {Hop(9)};
  before.writer_epoch = 5;
  h_.writes.insert(h_.writes.end() - 2, {.kind = Kind::kNextHops,
                                         .batch = before,
                                         .begin = 712,
                                         .end = 715,
                                         .outcome = Outcome::kDone,
                                         .generation = 4,
                                         .counts = {.added = 1}});
  h_.writes[h_.writes.size() - 2].generation = 5;
  h_.writes[h_.writes.size() - 2].visible = 5;
  h_.objects[0].generation = 5;
  EXPECT_THAT(CheckHistory(h_), testing::IsEmpty());
  h_.objects[0].next_hops.push_back(Hop(9));
  ExpectFault("order", "list: next hops differ");
}

// 6. Disk faults.

// The store refuses the batch that made generation 3, for a broken disk; the
// server dies after that, and the next one has it all the same.
class ModelCheckDisk : public ModelCheck {
 protected:
  ModelCheckDisk() {
    h_.disk_faults = {{495, 530}};
    h_.lives = {{0, kNever, 350}, {360, kNever, 525}, {526, 900, 950}};
    h_.writes[kLost].reason = "STORE_FAILED";
  }
};

TEST_F(ModelCheckDisk, AGoodHistoryIsGood) {
  EXPECT_THAT(CheckHistory(h_), testing::IsEmpty());
  // It may also be gone.
  h_.writes[kGone] = h_.writes[kNothing];
  h_.lookups.pop_back();
  h_.routes.clear();
  h_.watches.pop_back();
  EXPECT_THAT(CheckHistory(h_), testing::IsEmpty());
}

TEST_F(ModelCheckDisk, ARefusedBatchIsSeenBeforeARestart) {
  h_.lives[1].end = 640;
  h_.lives[2].begin = 641;
  ExpectFault("order", "generation 3 of 3 has no maker");
}

TEST_F(ModelCheckDisk, ARefusalOfAHealthyDisk) {
  h_.disk_faults[0] = {540, 550};
  ExpectFault("refusal", "the disk was well");
}

TEST_F(ModelCheckDisk, ABatchLostWithThePower) {
  // As AnAcknowledgedBatchLost: the next server has another batch at 3.
  h_.writes[kLost].reason.clear();
  h_.writes[kLost].outcome = Outcome::kDone;
  h_.writes[kLost].generation = 3;
  h_.writes[kLost].counts = {.removed = 1};
  EXPECT_THAT(CheckHistory(h_), testing::IsEmpty());
  Watched(1, 1) = Message(530, 3, kWide, 9);
  ExpectFault("order", "generation 3 of 3 has no maker");
}

// 7. Tables that are created and deleted.

// The same history of a table that began at generation 10 and was deleted.
class ModelCheckDeleted : public ModelCheck {
 protected:
  ModelCheckDeleted() {
    h_.first = 10;
    for (WriteCall& call : h_.writes) {
      if (call.outcome != Outcome::kDone) continue;
      call.generation += 10;
      call.visible += 10;
    }
    for (LookupCall& call : h_.lookups) {
      if (call.min_generation > 0) call.min_generation += 10;
      call.generation += 10;
    }
    h_.explains[0].generation += 10;
    h_.lists[0].generation += 10;
    h_.states[0].accepted += 10;
    h_.states[0].visible += 10;
    h_.states[0].persisted += 10;
    for (WatchCall& watch : h_.watches) {
      watch.start_generation += 10;
      for (WatchCall::Message& message : watch.messages) {
        message.delta.generation += 10;
      }
    }
    h_.deleted_begin = 800;
    h_.deleted_end = 810;
    h_.absents = {{805, 806}, {840, 850}};
    UpdateBatch late = Change(Op::kUpsert, kWide, 7);
    late.writer_epoch = 5;
    h_.writes.push_back(
        {.batch = late, .begin = 799, .end = 805, .reason = "TABLE_NOT_FOUND"});
  }
};

TEST_F(ModelCheckDeleted, AGoodHistoryIsGood) {
  EXPECT_THAT(CheckHistory(h_), testing::IsEmpty());
  // What was told that there is no table may have come just before.
  h_.lookups.push_back(
      {.begin = 802, .end = 809, .generation = 14, .answers = {2}});
  EXPECT_THAT(CheckHistory(h_), testing::IsEmpty());
}

TEST_F(ModelCheckDeleted, ARefusalForAnUnseenBatch) {
  UpdateBatch exists = Change(Op::kInsert, kWide, 3);
  exists.writer_epoch = 5;
  Refused(exists, 801, 806, "ROUTE_EXISTS");
  EXPECT_THAT(CheckHistory(h_), testing::IsEmpty());
  h_.writes.back().end = 798;
  h_.writes.back().begin = 790;
  ExpectFault("refusal", "none of the generations 3..3");
}

TEST_F(ModelCheckDeleted, ARouteOfAnUnseenBatch) {
  h_.routes.push_back({802, 807, kWide, 7});
  EXPECT_THAT(CheckHistory(h_), testing::IsEmpty());
  h_.routes.back().next_hop = 6;
  ExpectFault("route", "had never the next hop 6");
}

TEST_F(ModelCheckDeleted, ATableThatIsMissedBeforeItsDeletion) {
  h_.absents[0] = {700, 710};
  ExpectFault("deleted", "[700..710] found no table");
}

TEST_F(ModelCheckDeleted, AWriterThatMissesItBeforeItsDeletion) {
  h_.writes.back().begin = 720;
  h_.writes.back().end = 730;
  ExpectFault("deleted", "[720..730] found no table");
}

TEST_F(ModelCheckDeleted, AReaderOfADeletedTable) {
  h_.lookups.back().begin = 820;
  h_.lookups.back().end = 830;
  ExpectFault("deleted", "[820..830] to server 0 was answered");
}

TEST_F(ModelCheckDeleted, AWriterOfADeletedTable) {
  UpdateBatch nothing = h_.writes[kGone].batch;
  nothing.changes[0].op = Op::kDelete;
  Done(nothing, 820, 830, 13, {.unchanged = 1});
  ExpectFault("deleted", "[820..830] to server 0 was answered");
}

TEST_F(ModelCheckDeleted, ANewTableThatIsNotEmpty) {
  h_.lists.insert(h_.lists.begin(), {120, 130, 10, {}});
  EXPECT_THAT(CheckHistory(h_), testing::IsEmpty());
  h_.lists[0].routes = {{kLong, 2}};
  ExpectFault("order", "was not created empty: list: routes differ");
}

TEST_F(ModelCheckDeleted, AGenerationBeforeTheFirst) {
  h_.lookups[kOfWide].generation = 1;
  ExpectFault("first", "generation 1 of a table that began at 10");
}

TEST_F(ModelCheckDeleted, ATableThatRepeatsGenerations) {
  ModelHistory next;
  next.first = 14;
  EXPECT_EQ(CheckSuccession(h_, next), "");
  next.first = 13;
  EXPECT_THAT(CheckSuccession(h_, next), testing::HasSubstr("succession"));
}

TEST_F(ModelCheck, ASurprise) {
  h_.surprises = {"INTERNAL"};
  ExpectFault("surprise", "INTERNAL");
}

// Servers 0 and 1 share a store; the calls above are to server 0.
class ModelCheckShared : public ModelCheck {
 protected:
  ModelCheckShared() { h_.shared = true; }
  void LookUp(int server, Instant begin, uint64_t generation) {
    h_.lookups.push_back({.begin = begin,
                          .end = begin + 5,
                          .generation = generation,
                          .answers = {generation == 1 ? 1U : 2U},
                          .server = server});
  }
};

TEST_F(ModelCheckShared, ReadsOfAServerMayBeBehindAnother) {
  LookUp(1, 275, 1);
  LookUp(1, 285, 2);
  h_.states.push_back({.begin = 276,
                       .end = 278,
                       .accepted = 1,
                       .visible = 1,
                       .persisted = 1,
                       .digest = Digest({{kWide, 1}}),
                       .server = 1});
  EXPECT_EQ(absl::StrJoin(CheckHistory(h_), "\n"), "");
}

// Server 1 has not followed generation 2, which server 0 acked at 250. No
// answer of a write comes from what server 1 has.

TEST_F(ModelCheckShared, ARefusalByAServerThatIsBehind) {
  UpdateBatch strict = Change(Op::kDeleteStrict, kLong, kNoRoute);
  strict.writer_epoch = 5;
  Refused(strict, 276, 278, "ROUTE_NOT_FOUND");
  h_.writes.back().server = 1;
  ExpectFault("refusal", "none of the generations 2..2");
  // While the other batch is on the way, either may come first.
  h_.writes.back().begin = 240;
  h_.writes.back().end = 260;
  EXPECT_EQ(absl::StrJoin(CheckHistory(h_), "\n"), "");
}

TEST_F(ModelCheckShared, AMismatchFoundByAServerThatIsBehind) {
  UpdateBatch next = Change(Op::kUpsert, kLong, 9);
  next.writer_epoch = 5;
  next.expected_generation = 2;
  Refused(next, 276, 278, "GENERATION_MISMATCH");
  h_.writes.back().server = 1;
  ExpectFault("refusal", "none of the generations 2..2");
}

TEST_F(ModelCheckShared, AWithdrawalLostByAServerThatIsBehind) {
  UpdateBatch withdraw = Change(Op::kDelete, kLong, kNoRoute);
  withdraw.writer_epoch = 5;
  Done(withdraw, 276, 278, 1, {.unchanged = 1});
  h_.writes.back().server = 1;
  ExpectFault("answer", "can only have seen 2..2");
  h_.writes.back().begin = 240;
  h_.writes.back().end = 260;
  h_.writes.back().batch.writer_epoch = 0;
  EXPECT_EQ(absl::StrJoin(CheckHistory(h_), "\n"), "");
}

TEST_F(ModelCheckShared, AValidationByAServerThatIsBehind) {
  UpdateBatch insert = Change(Op::kInsert, kLong, 9);
  insert.writer_epoch = 5;
  insert.validate_only = true;
  Done(insert, 276, 278, 1, {.added = 1});
  h_.writes.back().server = 1;
  ExpectFault("answer", "can only have seen 2..2");
}

TEST_F(ModelCheckShared, AReplacementThatEqualsAnOldTable) {
  UpdateBatch same;
  same.replacement = {{kWide, 1}};
  same.writer_epoch = 5;
  Done(same, 276, 278, 1, {.unchanged = 1});
  h_.writes.back().kind = Kind::kReplace;
  h_.writes.back().server = 1;
  ExpectFault("answer", "can only have seen 2..2");
}

TEST_F(ModelCheckShared, AnOldWriterAcceptedByAServerThatIsBehind) {
  Done(Change(Op::kUpsert, kWide, 1), 276, 278, 2, {.unchanged = 1});
  h_.writes.back().server = 1;
  ExpectFault("fence", "although epoch 5 was in force");
}

// A server that starts with a file of routes for an empty table, and finds one
// that is not empty, adds nothing.
TEST_F(ModelCheckShared, RoutesOfAFileOverAcknowledgedOnes) {
  h_.lists.push_back({.begin = 720,
                      .end = 730,
                      .generation = 4,
                      .routes = {{kLong, 99}},
                      .server = 1});
  ExpectFault("order", "generation 4 of 4 has no maker");
}

TEST_F(ModelCheckShared, AServerThatGoesBack) {
  LookUp(1, 275, 2);
  LookUp(1, 285, 1);
  ExpectFault("stale", "lookup [285..290] saw generation 1 although 2");
}

TEST_F(ModelCheckShared, AServerThatBeginsWithoutWhatWasAccepted) {
  h_.lives.push_back({.begin = 300, .server = 1});
  LookUp(1, 305, 1);
  ExpectFault("stale", "lookup [305..310] saw generation 1 although 2");
}

TEST_F(ModelCheckShared, ABatchMayOutliveItsServer) {
  h_.writes[kLost].begin = 300;
  h_.writes[kLost].end = 340;
  EXPECT_EQ(absl::StrJoin(CheckHistory(h_), "\n"), "");
}

// The table is created at server 0 until 90 and deleted there from 800 to 810.
class ModelCheckSharedDeleted : public ModelCheckShared {
 protected:
  ModelCheckSharedDeleted() {
    h_.created = 90;
    h_.deleted_begin = 800;
    h_.deleted_end = 810;
  }
  void Missed(int server, Instant begin) {
    h_.absents.push_back({.begin = begin, .end = begin + 5, .server = server});
  }
};

TEST_F(ModelCheckSharedDeleted, AServerMaySeeATableLateAndKeepItLonger) {
  Missed(1, 95);
  LookUp(1, 275, 1);
  LookUp(1, 820, 3);
  Missed(1, 830);
  EXPECT_EQ(absl::StrJoin(CheckHistory(h_), "\n"), "");
}

TEST_F(ModelCheckSharedDeleted, AServerThatLosesATable) {
  LookUp(1, 275, 1);
  Missed(1, 300);
  ExpectFault("deleted", "[300..305] found no table");
}

TEST_F(ModelCheckSharedDeleted, TheCreatorThatLosesATable) {
  Missed(0, 95);
  ExpectFault("deleted", "[95..100] found no table");
}

TEST_F(ModelCheckSharedDeleted, AServerThatBeginsWithoutATable) {
  h_.lives.push_back({.begin = 300, .server = 1});
  Missed(1, 310);
  ExpectFault("deleted", "[310..315] found no table");
}

TEST_F(ModelCheckSharedDeleted, AServerThatAnswersForATableItDeleted) {
  LookUp(0, 820, 2);
  ExpectFault("deleted", "[820..825] to server 0 was answered");
}

TEST_F(ModelCheckSharedDeleted, AServerThatFindsATableAgain) {
  LookUp(1, 275, 1);
  Missed(1, 820);
  LookUp(1, 830, 2);
  ExpectFault("deleted", "[830..835] to server 1 was answered");
}

TEST_F(ModelCheckSharedDeleted, AServerThatBeginsWithADeletedTable) {
  h_.lives.push_back({.begin = 815, .server = 1});
  LookUp(1, 820, 2);
  ExpectFault("deleted", "[820..825] to server 1 was answered");
}

TEST_F(ModelCheckShared, TwoServersWithDifferentTables) {
  h_.lists.push_back({.begin = 475,
                      .end = 478,
                      .generation = 2,
                      .routes = {{kWide, 1}},
                      .server = 1});
  ExpectFault("order", "list: routes differ");
}

}  // namespace
}  // namespace planb::server
