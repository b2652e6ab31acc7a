// SPDX-License-Identifier: Apache-2.0

// ExportSnapshot and ImportSnapshot through a real channel: what goes out comes
// in as it was, whole or not at all.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/testing/control_calls.h"

namespace planb::server {
namespace {

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
  }
  AddGroup(9, {{1, 3}, {2, 0}, {50, 1}}, *request.mutable_groups());
  const auto reply = Call(running, &Stub::UpdateRoutes, request);
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
}

TEST(ControlSnapshot, GoesIntoAnotherTableAsItWas) {
  RunningServer running;
  Fill(running, 3000);
  CreateTable(running, "red");
  // Whatever is there goes, next hops and groups included.
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

  // Once more it changes nothing, however it is cut.
  const auto again = Import(running, "red", file, 997);
  EXPECT_EQ(again.response.generation(), 2U);
  EXPECT_EQ(again.response.unchanged(), 6003U);
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

// Every byte of a file turned, and a file cut anywhere.
TEST(ControlSnapshot, DamageIsRefusedAndChangesNothing) {
  RunningServer running;
  Fill(running, 3);
  const std::string file = Export(running);
  CreateTable(running, "red");
  const auto refused = [&](const std::string& damaged, size_t at) {
    const grpc::Status status = Import(running, "red", damaged).status;
    const bool corrupt = status.error_code() == Code::DATA_LOSS &&
                         ReasonOf(status) == "SNAPSHOT_CORRUPT";
    // The first bytes say what kind of file it is, and of which version.
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

// A client that breaks off after the whole file has not half-closed.
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

// One generation goes out however the table changes, and comes in at once:
// a batch of lookups never sees two files.
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
