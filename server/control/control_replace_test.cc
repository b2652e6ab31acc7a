// SPDX-License-Identifier: Apache-2.0

// ReplaceRoutes and ImportSnapshot through a real channel: the table becomes
// what was sent, in one generation that holds the difference, or is not
// changed.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lpm/io/table_file.h"
#include "lpm/routes/table_digest.h"
#include "lpm/synthetic/synthetic.h"
#include "server/testing/control_calls.h"

namespace planb::server {
namespace {

using Request = v1::ReplaceRoutesRequest;

Request Message(
    std::initializer_list<std::pair<const char*, uint32_t>> routes) {
  Request request;
  for (const auto& [prefix, hop] : routes) {
    v1::Route& route = *request.add_routes();
    route.mutable_prefix()->set_text(prefix);
    route.set_next_hop_id(hop);
  }
  return request;
}

Request Last(Request request) {
  request.set_commit(true);
  return request;
}

Reply<v1::ReplaceRoutesResponse> Replace(RunningServer& running,
                                         const std::vector<Request>& sent) {
  return Call(running, &Stub::ReplaceRoutes, sent);
}

class ControlReplace : public testing::Test {
 protected:
  ControlReplace() {
    running_.Announce({{"10.0.0.0/8", 1},
                       {"10.1.0.0/16", 2},
                       {"2001:db8::/32", 1},
                       {"2001:db8:1::/48", 3}});
    before_ = ListAll(running_);
  }
  void ExpectUnchanged() {
    EXPECT_EQ(GetTable(running_).accepted_generation(), 1U);
    EXPECT_EQ(ListAll(running_), before_);
  }

  RunningServer running_;
  std::vector<Route> before_;
};

TEST_F(ControlReplace, AppliesTheDifferenceInOneGeneration) {
  CallContext context;
  v1::WatchRoutesRequest from;
  from.set_start_generation(1);
  const auto watch = running_.table().WatchRoutes(&context, from);

  // In any order, in several messages, the last of which is empty.
  const auto reply =
      Replace(running_, {Message({{"2001:db8::/32", 9}, {"::/0", 4}}),
                         Message({{"10.0.0.0/8", 1}}), Last({})});
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.response.generation(), 2U);
  EXPECT_EQ(reply.response.visible_generation(), 2U);
  EXPECT_EQ(reply.response.added(), 1U);
  EXPECT_EQ(reply.response.changed(), 1U);
  EXPECT_EQ(reply.response.removed(), 2U);
  EXPECT_EQ(reply.response.unchanged(), 1U);
  EXPECT_EQ(reply.response.digest(), GetTable(running_).digest());
  EXPECT_GT(reply.response.accepted_unix_nanos(), 0U);
  EXPECT_GE(reply.response.visible_unix_nanos(),
            reply.response.accepted_unix_nanos());
  EXPECT_EQ(ListAll(running_),
            (std::vector<Route>{{*Prefix::Parse("10.0.0.0/8"), 1},
                                {*Prefix::Parse("::/0"), 4},
                                {*Prefix::Parse("2001:db8::/32"), 9}}));

  // A watcher gets the difference and nothing else.
  v1::WatchRoutesResponse message;
  do {
    ASSERT_TRUE(watch->Read(&message));
  } while (message.generation() < 2);
  EXPECT_TRUE(message.generation_complete());
  EXPECT_EQ(message.digest(), reply.response.digest());
  std::vector<std::string> changes;
  for (const v1::RouteUpdate& update : message.updates()) {
    changes.push_back(absl::StrCat(ToPrefix(update.prefix()).ToString(), " ",
                                   update.op(), " ", update.next_hop_id()));
  }
  std::sort(changes.begin(), changes.end());
  EXPECT_EQ(changes,
            (std::vector<std::string>{"10.1.0.0/16 4 0", "2001:db8:1::/48 4 0",
                                      "2001:db8::/32 1 9", "::/0 1 4"}));
  context.TryCancel();
}

TEST_F(ControlReplace, NoRoutesEmptyTheTable) {
  const auto reply = Replace(running_, {Last({})});
  ASSERT_TRUE(reply.status.ok());
  EXPECT_EQ(reply.response.removed(), 4U);
  EXPECT_EQ(reply.response.digest(), std::string(16, '\0'));
  EXPECT_TRUE(ListAll(running_).empty());
}

TEST_F(ControlReplace, TheSameRoutesChangeNothing) {
  const auto reply =
      Replace(running_, {Last(Message({{"10.0.0.0/8", 1},
                                       {"10.1.0.0/16", 2},
                                       {"2001:db8::/32", 1},
                                       {"2001:db8:1::/48", 3}}))});
  ASSERT_TRUE(reply.status.ok());
  EXPECT_EQ(reply.response.generation(), 1U);
  EXPECT_EQ(reply.response.unchanged(), 4U);
  ExpectUnchanged();
}

TEST_F(ControlReplace, NextHopsThatAreNotSentStay) {
  v1::UpdateNextHopsRequest hops;
  hops.add_upserts()->set_id(1);
  AddGroup(8, {{1, 1}}, *hops.mutable_group_upserts());
  EXPECT_TRUE(Call(running_, &Stub::UpdateNextHops, hops).status.ok());
  Request request = Message({{"::/0", 2}});
  request.add_next_hops()->set_id(2);
  AddGroup(9, {{1, 1}, {2, 1}}, *request.mutable_groups());
  const auto reply = Replace(running_, {request, Last({})});
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.response.generation(), 3U);
  EXPECT_EQ(GetTable(running_).next_hops(), 2U);
  EXPECT_EQ(GetTable(running_).groups(), 2U);
}

TEST_F(ControlReplace, OnlyACommittedStreamChangesAnything) {
  const Request good = Message({{"::/0", 4}});
  ExpectError(Replace(running_, {good, good}).status, Code::INVALID_ARGUMENT,
              "COMMIT_MISSING", "commit");
  ExpectError(Replace(running_, {Last(good), Message({{"::/1", 4}})}).status,
              Code::INVALID_ARGUMENT, "COMMIT_NOT_LAST", "commit");
  ExpectError(Replace(running_, {good, Message({{"::/1", 1}}),
                                 Last(Message({{"::/2", 1}, {"::1/3", 1}}))})
                  .status,
              Code::INVALID_ARGUMENT, "ROUTE_INVALID", "routes[1]");
  ExpectError(
      Replace(running_, {good, Message({{"::/1", 1}}), Last(good)}).status,
      Code::INVALID_ARGUMENT, "PREFIX_REPEATED", "routes");
  ExpectUnchanged();
}

// The client breaks off before the commit, or after it and before the
// half-close.
TEST_F(ControlReplace, ABrokenStreamChangesNothing) {
  for (int round = 0; round < 100; ++round) {
    CallContext context;
    v1::ReplaceRoutesResponse response;
    const auto writer = running_.table().ReplaceRoutes(&context, &response);
    writer->Write(Message({{"::/0", 4}}));
    if (round % 2 == 0) writer->Write(Last({}));
    context.TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), Code::CANCELLED);
  }
  ExpectUnchanged();
}

TEST_F(ControlReplace, ValidateOnlyCounts) {
  Request request = Message({{"::/0", 4}, {"10.0.0.0/8", 2}});
  request.set_validate_only(true);
  const auto reply = Replace(running_, {request, Last({})});
  ASSERT_TRUE(reply.status.ok());
  EXPECT_EQ(reply.response.generation(), 1U);
  EXPECT_EQ(reply.response.added(), 1U);
  EXPECT_EQ(reply.response.changed(), 1U);
  EXPECT_EQ(reply.response.removed(), 3U);
  // The digest is that of the generation, which is the current one.
  EXPECT_EQ(reply.response.digest(), GetTable(running_).digest());
  ExpectUnchanged();
}

TEST_F(ControlReplace, Conditions) {
  Request request = Last(Message({{"::/0", 4}}));
  request.set_expected_generation(0);
  ExpectError(Replace(running_, {request}).status, Code::ABORTED,
              "GENERATION_MISMATCH", "expected_generation");
  ExpectUnchanged();
  request.set_expected_generation(1);
  request.set_writer_epoch(5);
  EXPECT_EQ(Replace(running_, {request}).response.generation(), 2U);
  request.clear_expected_generation();
  request.set_writer_epoch(4);
  ExpectError(Replace(running_, {request}).status, Code::FAILED_PRECONDITION,
              "WRITER_FENCED", "writer_epoch");
  EXPECT_EQ(GetTable(running_).accepted_generation(), 2U);
}

TEST_F(ControlReplace, ARepeatedRequestIdIsAppliedOnce) {
  Request first = Message({{"::/0", 4}});
  first.set_request_id("once");
  first.add_next_hops()->set_id(4);
  const auto once = Replace(
      running_, {first, Last(Message({{"10.0.0.0/8", 5}, {"::/1", 6}}))});
  ASSERT_TRUE(once.status.ok()) << once.status.error_message();
  EXPECT_EQ(once.response.generation(), 2U);
  running_.Announce({{"::/0", 9}});
  const std::vector<Route> after = ListAll(running_);

  // The repeat comes in other messages and in another order, from another
  // writer.
  Request other = Message({{"::/1", 6}});
  other.set_request_id("once");
  other.set_writer_epoch(7);
  other.set_ack(v1::ACK_ACCEPTED);
  Request rest = Message({{"10.0.0.0/8", 5}});
  rest.add_next_hops()->set_id(4);
  const auto again =
      Replace(running_, {other, rest, Last(Message({{"::/0", 4}}))});
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  EXPECT_EQ(again.response.generation(), 2U);
  EXPECT_EQ(again.response.added(), once.response.added());
  EXPECT_EQ(again.response.changed(), once.response.changed());
  EXPECT_EQ(again.response.removed(), once.response.removed());
  EXPECT_EQ(again.response.unchanged(), once.response.unchanged());
  EXPECT_EQ(again.response.digest(), once.response.digest());
  EXPECT_EQ(again.response.accepted_unix_nanos(),
            once.response.accepted_unix_nanos());
  EXPECT_EQ(GetTable(running_).accepted_generation(), 3U);
  EXPECT_EQ(GetTable(running_).writer_epoch(), 0U);
  EXPECT_EQ(ListAll(running_), after);
}

TEST_F(ControlReplace, ARequestIdWithOtherContentsIsRefused) {
  Request request = Last(Message({{"::/0", 4}}));
  request.set_request_id("once");
  ASSERT_TRUE(Replace(running_, {request}).status.ok());
  const auto refused = [&](const grpc::Status& status) {
    ExpectError(status, Code::INVALID_ARGUMENT, "REQUEST_ID_REUSED",
                "request_id");
  };
  for (int i = 0; i < 4; ++i) {
    Request other = request;
    if (i == 0) other.mutable_routes(0)->set_next_hop_id(5);
    if (i == 1) other.add_next_hops()->set_id(4);
    if (i == 2) other.set_expected_generation(2);
    if (i == 3) other.set_validate_only(true);
    refused(Replace(running_, {other}).status);
  }
  v1::UpdateRoutesRequest update = Updates({{"::/0", 4}});
  update.set_request_id("once");
  refused(Call(running_, &Stub::UpdateRoutes, update).status);
  EXPECT_EQ(GetTable(running_).accepted_generation(), 2U);

  request.set_request_id(std::string(129, 'x'));
  ExpectError(Replace(running_, {request}).status, Code::INVALID_ARGUMENT,
              "REQUEST_ID_INVALID", "request_id");
}

// A client that goes away before the answer may repeat the call: the table is
// replaced once, whether or not the first attempt came so far.
TEST_F(ControlReplace, ALostAnswerMayBeAskedForAgain) {
  for (uint64_t round = 0; round < 100; ++round) {
    Request request = Last(Message({{"::/0", 4}}));
    request.mutable_routes(0)->set_next_hop_id(
        static_cast<uint32_t>(100 + round));
    request.set_request_id(absl::StrCat("round ", round));
    {
      CallContext context;
      v1::ReplaceRoutesResponse lost;
      const auto writer = running_.table().ReplaceRoutes(&context, &lost);
      writer->Write(request);
      writer->WritesDone();
      context.TryCancel();
      writer->Finish().IgnoreError();
    }
    const auto again = Replace(running_, {request});
    ASSERT_TRUE(again.status.ok()) << again.status.error_message();
    ASSERT_EQ(again.response.generation(), round + 2);
    ASSERT_EQ(GetTable(running_).accepted_generation(), round + 2);
  }
}

// The limit of a batch does not hold for a table that comes in many messages.
TEST(ControlReplaceLimits, ATableMayBeLargerThanABatch) {
  ServerOptions options;
  options.control.max_update_routes = 2;
  options.tables.table.limits = {.max_routes = 50, .max_next_hops = 3};
  RunningServer running(options);
  std::vector<Request> sent;
  for (int i = 0; i < 50; ++i) {
    sent.push_back(Message({{absl::StrCat("10.", i, ".0.0/16").c_str(), 1}}));
  }
  sent.back().set_commit(true);
  const auto reply = Replace(running, sent);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.response.added(), 50U);
  // The limits of the table hold while messages arrive: these never commit.
  sent.resize(49);
  sent.push_back(Message({{"::/0", 1}, {"::/1", 1}}));
  ExpectQuota(Replace(running, sent).status, "TABLE_FULL", false);
  Request hops;
  for (uint32_t id = 1; id <= 4; ++id) hops.add_next_hops()->set_id(id);
  ExpectQuota(Replace(running, {hops}).status, "NEXT_HOPS_FULL", false);
  EXPECT_EQ(GetTable(running).accepted_generation(), 1U);
}

TEST_F(ControlReplace, AHundredThousandRoutes) {
  const std::vector<Route> routes =
      SyntheticTable({.ipv6_routes = 80'000, .ipv4_routes = 20'000, .seed = 7});
  std::vector<Request> sent(1);
  // In reverse order: the server sorts.
  for (auto route = routes.rbegin(); route != routes.rend(); ++route) {
    if (sent.back().routes_size() == 3000) sent.emplace_back();
    v1::Route& out = *sent.back().add_routes();
    SetPrefix(route->prefix, *out.mutable_prefix());
    out.set_next_hop_id(route->next_hop);
  }
  sent.back().set_commit(true);
  auto reply = Replace(running_, sent);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.response.generation(), 2U);
  EXPECT_EQ(reply.response.added() + reply.response.changed() +
                reply.response.unchanged(),
            routes.size());
  EXPECT_EQ(ListAll(running_), routes);
  // One route differs, one is missing.
  sent[10].mutable_routes(5)->set_next_hop_id(123'456);
  sent[20].mutable_routes()->DeleteSubrange(7, 1);
  reply = Replace(running_, sent);
  EXPECT_EQ(reply.response.generation(), 3U);
  EXPECT_EQ(reply.response.changed(), 1U);
  EXPECT_EQ(reply.response.removed(), 1U);
  EXPECT_EQ(reply.response.unchanged(), routes.size() - 2);
}

// ExportSnapshot and ImportSnapshot.

std::string Export(RunningServer& running, const std::string& table = "") {
  v1::ExportSnapshotRequest request;
  request.set_table(table);
  const auto chunks = Call(running, &Stub::ExportSnapshot, request);
  EXPECT_TRUE(chunks.status.ok()) << chunks.status.error_message();
  std::string file;
  for (const auto& chunk : chunks.all) {
    EXPECT_LE(chunk.data().size(), size_t{66} << 10);
    file += chunk.data();
  }
  return file;
}

Reply<v1::ReplaceRoutesResponse> Import(RunningServer& running,
                                        const std::string& table,
                                        absl::string_view file,
                                        size_t chunk = 60'000) {
  std::vector<v1::ImportSnapshotRequest> sent(1);
  sent[0].set_table(table);
  for (; !file.empty(); file.remove_prefix(std::min(chunk, file.size()))) {
    const absl::string_view data = file.substr(0, chunk);
    sent.emplace_back().set_data(data.data(), data.size());
  }
  return Call(running, &Stub::ImportSnapshot, sent);
}

std::string Objects(RunningServer& running, const std::string& table) {
  v1::ListNextHopsRequest request;
  request.set_table(table);
  std::string all;
  for (auto& chunk : Call(running, &Stub::ListNextHops, request).all) {
    chunk.clear_generation();
    all += chunk.ShortDebugString();
  }
  return all;
}

// Routes of both families, objects of every form, groups.
void Fill(RunningServer& running, int routes) {
  v1::UpdateRoutesRequest request;
  for (int i = 0; i < routes; ++i) {
    const auto hop = static_cast<uint32_t>(i % 7 + 1);
    AddUpdate(absl::StrCat("10.", i % 256, ".", i / 256, ".0/24"), hop,
              request);
    AddUpdate(absl::StrCat("2001:db8:", i, "::/48"), 8 - hop, request);
  }
  AddUpdate("2001:db8::1/128", 9, request);
  AddUpdate("::/0", 9, request);
  AddUpdate("0.0.0.0/0", 77, request);  // no object
  for (uint32_t id = 1; id <= 3; ++id) {
    v1::NextHop& hop = *request.add_next_hops();
    hop.set_id(id);
    hop.set_gateway(std::string(id == 1 ? 0 : id == 2 ? 4 : 16, '\x7f'));
    hop.set_interface("eth0");
    hop.set_weight(id);
    hop.set_label(std::string(id * 20, 'x'));
    if (id == 3) hop.mutable_attributes()->set_origin_as(64496);
  }
  AddGroup(9, {{1, 3}, {2, 0}, {50, 1}}, *request.mutable_groups());
  const auto reply = Call(running, &Stub::UpdateRoutes, request);
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
}

TEST(ControlSnapshot, ImportRestoresTheExportedTable) {
  RunningServer running;
  Fill(running, 3000);
  CreateTable(running, "red");
  // The import removes what is there, next hops and groups included.
  v1::UpdateRoutesRequest other = Updates({{"::/0", 5}, {"::/9", 5}}, "red");
  other.add_next_hops()->set_id(5);
  AddGroup(3, {{5, 1}}, *other.mutable_groups());  // there it is a next hop
  ASSERT_TRUE(Call(running, &Stub::UpdateRoutes, other).status.ok());

  const std::string file = Export(running);
  const auto reply = Import(running, "red", file);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.response.generation(), 2U);
  EXPECT_EQ(reply.response.added(), 6002U);
  EXPECT_EQ(reply.response.changed(), 1U);
  EXPECT_EQ(reply.response.removed(), 1U);
  EXPECT_EQ(reply.response.digest(), GetTable(running).digest());
  EXPECT_EQ(GetTable(running, "red").digest(), GetTable(running).digest());
  EXPECT_EQ(ListAll(running, "red"), ListAll(running));
  EXPECT_EQ(Objects(running, "red"), Objects(running, ""));
  EXPECT_EQ(GetTable(running, "red").groups(), 1U);

  // A second import changes nothing, with any size of chunks.
  const auto again = Import(running, "red", file, 997);
  EXPECT_EQ(again.response.generation(), 2U);
  EXPECT_EQ(again.response.unchanged(), 6003U);
}

TEST(ControlSnapshot, ARepeatedRequestIdIsAppliedOnce) {
  RunningServer running;
  Fill(running, 100);
  const std::string file = Export(running);
  const auto import = [&](size_t chunk, const std::string& contents) {
    std::vector<v1::ImportSnapshotRequest> sent(1);
    sent[0].set_request_id("once");
    for (size_t at = 0; at < contents.size(); at += chunk) {
      sent.emplace_back().set_data(contents.substr(at, chunk));
    }
    return Call(running, &Stub::ImportSnapshot, sent);
  };
  running.Announce({{"2001::/16", 5}});
  const auto once = import(60'000, file);
  ASSERT_TRUE(once.status.ok()) << once.status.error_message();
  EXPECT_EQ(once.response.generation(), 3U);
  EXPECT_EQ(once.response.removed(), 1U);
  running.Announce({{"2001::/16", 6}});
  const auto again = import(777, file);
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  EXPECT_EQ(again.response.generation(), 3U);
  EXPECT_EQ(again.response.removed(), 1U);
  EXPECT_EQ(GetTable(running).accepted_generation(), 4U);
  ExpectError(import(60'000, Export(running)).status, Code::INVALID_ARGUMENT,
              "REQUEST_ID_REUSED", "request_id");
}

TEST(ControlSnapshot, OfAnEmptyTable) {
  RunningServer running;
  const std::string empty = Export(running);
  Fill(running, 10);
  const auto reply = Import(running, "", empty, 1);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.response.removed(), 23U);
  const v1::Table table = GetTable(running);
  EXPECT_EQ(table.digest(), std::string(16, '\0'));
  EXPECT_EQ(table.next_hops() + table.groups(), 0U);
}

TEST(ControlSnapshot, ValidateOnlyAndConditions) {
  RunningServer running;
  const std::string empty = Export(running);
  Fill(running, 10);
  v1::ImportSnapshotRequest request;
  request.set_data(empty);
  request.set_validate_only(true);
  const auto reply = Call(running, &Stub::ImportSnapshot, {request});
  EXPECT_EQ(reply.response.removed(), 23U);
  EXPECT_EQ(reply.response.generation(), 1U);
  EXPECT_EQ(GetTable(running).accepted_generation(), 1U);
  EXPECT_EQ(GetTable(running).groups(), 1U);
}

// The header of a file has the digest of its contents, or, if an older server
// wrote it, of its routes alone.
TEST(ControlSnapshot, TheDigestOfTheHeaderIsChecked) {
  const NextHop next_hop = {.id = 7, .label = "seven"};
  const NextHopGroup group = {.id = 8, .members = {{7, 1}}};
  const Route route = {*Prefix::Parse("::/0"), 8};
  TableDigest routes, all, others;
  routes.Add(route);
  all.Add(route);
  all.Add(next_hop);
  all.Add(group);
  others.Add(route);
  others.Add(next_hop);
  RunningServer running;
  for (const TableDigest& digest : {routes, all, others}) {
    std::string file;
    TableFileWriter writer([&](absl::string_view bytes) {
      file.append(bytes.data(), bytes.size());
      return absl::OkStatus();
    });
    ASSERT_TRUE(writer.Begin({.digest = digest.ToString()}).ok());
    ASSERT_TRUE(writer.Add(next_hop).ok());
    ASSERT_TRUE(writer.Add(group).ok());
    ASSERT_TRUE(writer.Add(route).ok());
    ASSERT_TRUE(writer.Finish().ok());
    const auto reply = Import(running, "", file);
    if (digest == others) {
      ExpectError(reply.status, Code::DATA_LOSS, "SNAPSHOT_CORRUPT", "");
      continue;
    }
    ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
    EXPECT_EQ(reply.response.digest(), all.ToString());
    EXPECT_EQ(GetTable(running).digest(), all.ToString());
  }
}

// They end too early, and are out of order.
TEST(ControlSnapshot, AttributesThatCannotBeReadAreRefused) {
  RunningServer running;
  for (const absl::string_view encoded : {"\x08", "\x38\x01\x08\x01"}) {
    const NextHop next_hop = {.id = 7, .attributes = Attributes(encoded)};
    TableDigest digest;
    digest.Add(next_hop);
    std::string file;
    TableFileWriter writer([&](absl::string_view bytes) {
      file.append(bytes.data(), bytes.size());
      return absl::OkStatus();
    });
    ASSERT_TRUE(
        writer.Begin({.digest = digest.ToString(), .attributes = true}).ok());
    ASSERT_TRUE(writer.Add(next_hop).ok());
    ASSERT_TRUE(writer.Finish().ok());
    ExpectError(Import(running, "", file).status, Code::INVALID_ARGUMENT,
                "SNAPSHOT_INVALID", "data");
  }
}

// One bit of each byte is flipped, and the file is cut at each byte.
TEST(ControlSnapshot, DamageIsRefusedAndChangesNothing) {
  RunningServer running;
  Fill(running, 3);
  const std::string file = Export(running);
  CreateTable(running, "red");
  const auto refused = [&](const std::string& damaged, size_t at) {
    const grpc::Status status = Import(running, "red", damaged).status;
    const bool corrupt = status.error_code() == Code::DATA_LOSS &&
                         ReasonOf(status) == "SNAPSHOT_CORRUPT";
    // The first bytes are the format and its version.
    const bool other = at < 12 &&
                       status.error_code() == Code::INVALID_ARGUMENT &&
                       ReasonOf(status) == "SNAPSHOT_INVALID";
    EXPECT_TRUE(corrupt || other)
        << at << ": " << status.error_code() << " " << status.error_message();
  };
  for (size_t at = 0; at < file.size(); ++at) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 1 << (at % 8));
    refused(damaged, at);
    refused(file.substr(0, at), at);
  }
  refused(file + '\0', file.size());
  refused(file + file, file.size());
  EXPECT_EQ(GetTable(running, "red").accepted_generation(), 0U);
  EXPECT_TRUE(Import(running, "red", file).status.ok());
}

// The client breaks off after the whole file, before it half-closes.
TEST(ControlSnapshot, ABrokenStreamChangesNothing) {
  RunningServer running;
  const std::string empty = Export(running);
  Fill(running, 10);
  for (int round = 0; round < 50; ++round) {
    CallContext context;
    v1::ReplaceRoutesResponse response;
    const auto writer = running.table().ImportSnapshot(&context, &response);
    v1::ImportSnapshotRequest request;
    request.set_data(empty);
    writer->Write(request);
    context.TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), Code::CANCELLED);
  }
  EXPECT_EQ(GetTable(running).accepted_generation(), 1U);
}

// An export is of one generation while the table changes. An import is applied
// at once: a batch of lookups never sees two files.
TEST(ControlSnapshot, BesideUpdatesAndLookups) {
  RunningServer running;
  std::vector<std::string> files;
  for (uint32_t hop = 1; hop <= 2; ++hop) {
    v1::UpdateRoutesRequest request;
    for (int i = 0; i < 256; ++i) {
      AddUpdate(absl::StrCat("10.", i, ".0.0/16"), hop, request);
    }
    ASSERT_TRUE(Call(running, &Stub::UpdateRoutes, request).status.ok());
    files.push_back(Export(running));
  }
  std::atomic<bool> stop{false};
  std::thread lookups([&] {
    CallContext context;
    const auto stream = running.lookup().BatchLookup(&context);
    v1::BatchLookupRequest request;
    for (uint32_t i = 0; i < 256; ++i) {
      *request.mutable_addresses_v4() +=
          Address::V4(10U << 24 | i << 16).ToPacked();
    }
    v1::BatchLookupResponse reply;
    while (!stop.load()) {
      ASSERT_TRUE(stream->Write(request));
      ASSERT_TRUE(stream->Read(&reply));
      const std::string& hops = reply.next_hops();
      ASSERT_EQ(hops.size(), 1024U);
      for (size_t at = 4; at < hops.size(); at += 4) {
        ASSERT_EQ(std::memcmp(hops.data(), hops.data() + at, 4), 0);
      }
    }
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
  });
  CreateTable(running, "red");
  for (int round = 0; round < 100; ++round) {
    const auto reply =
        Import(running, "", files[static_cast<size_t>(round % 2)]);
    ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
    // Its digest is checked when it is taken in.
    const auto copy = Import(running, "red", Export(running));
    ASSERT_TRUE(copy.status.ok()) << copy.status.error_message();
  }
  stop = true;
  lookups.join();
}

}  // namespace
}  // namespace planb::server
