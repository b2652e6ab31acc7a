// SPDX-License-Identifier: Apache-2.0

// A load arrives complete, in chunks of bounded size, and only its last chunk
// waits until lookups see it.

#include "client/whole_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/call.h"
#include "client/testing/misbehaving_proxy.h"
#include "client/testing/real_server_fixture.h"

namespace planb::client {

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

Route MakeRoute(uint32_t i, NextHopId next_hop) {
  return {*Prefix::Create(Address::V4(i << 8), 24), next_hop};
}

NextHop MakeNextHop(NextHopId id) {
  NextHop next_hop;
  next_hop.id = id;
  return next_hop;
}

std::string ContentsOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class RouteLoaderTest : public testing::RealServerFixture {
 protected:
  std::vector<v1::UpdateRoutesRequest> Updates() const {
    return proxy_.Requests<v1::UpdateRoutesRequest>("UpdateRoutes");
  }
  NextHopList NextHops() const { return *client_.ListNextHops(""); }

  testing::MisbehavingProxy proxy_{target_};
  TableClient client_{proxy_.Channel()};
};

TEST_F(RouteLoaderTest, SendsChunksAndWaitsForTheLast) {
  std::vector<uint64_t> progress;
  LoadOptions options = {.chunk = 10};
  options.on_chunk = [&](const LoadReport& report) {
    progress.push_back(report.routes);
  };
  RouteLoader loader(client_, options);
  ASSERT_TRUE(loader.Add(MakeNextHop(7)).ok());
  ASSERT_TRUE(loader.Add(NextHopGroup{.id = 9, .members = {{7, 1}}}).ok());
  for (uint32_t i = 0; i < 30; ++i) {
    ASSERT_TRUE(loader.Add(MakeRoute(i, 7)).ok());
  }
  const auto report = loader.Finish();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->chunks, 3U);
  EXPECT_EQ(report->routes, 30U);
  EXPECT_EQ(report->next_hops, 1U);
  EXPECT_EQ(report->groups, 1U);
  EXPECT_THAT(NextHops().groups,
              ElementsAre(NextHopGroup{.id = 9, .members = {{7, 1}}}));
  EXPECT_EQ(report->added, 30U);
  EXPECT_EQ(report->generation, 3U);
  EXPECT_EQ(progress, std::vector<uint64_t>({10, 20, 30}));

  const auto updates = Updates();
  ASSERT_EQ(updates.size(), 3U);
  EXPECT_EQ(updates[0].ack(), v1::ACK_ACCEPTED);
  EXPECT_EQ(updates[1].ack(), v1::ACK_ACCEPTED);
  EXPECT_EQ(updates[2].ack(), v1::ACK_VISIBLE);
  EXPECT_EQ(updates[0].next_hops_size(), 1);
  for (const auto& update : updates) EXPECT_EQ(update.updates_size(), 10);
  EXPECT_EQ(ServedRoutes().size(), 30U);
}

TEST_F(RouteLoaderTest, OfRepeatedPrefixesTheLastCounts) {
  RouteLoader loader(client_, {.chunk = 2});
  ASSERT_TRUE(loader.Add(MakeRoute(1, 1)).ok());
  ASSERT_TRUE(loader.Add(MakeRoute(2, 1)).ok());
  ASSERT_TRUE(loader.Add(MakeRoute(2, 2)).ok());  // within a full chunk
  ASSERT_TRUE(loader.Add(MakeRoute(3, 1)).ok());
  ASSERT_TRUE(loader.Add(MakeRoute(1, 3)).ok());  // in a later chunk
  const auto report = loader.Finish();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->chunks, 2U);
  EXPECT_EQ(report->added, 3U);
  EXPECT_EQ(report->changed, 1U);
  const auto routes = ServedRoutes();
  EXPECT_EQ(routes.at(MakeRoute(1, 0).prefix), 3U);
  EXPECT_EQ(routes.at(MakeRoute(2, 0).prefix), 2U);
}

TEST_F(RouteLoaderTest, ManyNextHopsAreChunkedToo) {
  RouteLoader loader(client_, {.chunk = 4});
  for (NextHopId id = 1; id <= 10; ++id) {
    ASSERT_TRUE(loader.Add(MakeNextHop(id)).ok());
    ASSERT_TRUE(loader.Add(MakeNextHop(id)).ok());
  }
  EXPECT_EQ(loader.Finish()->next_hops, 10U);
  EXPECT_EQ(Updates().size(), 3U);
  EXPECT_EQ(NextHops().next_hops.size(), 10U);
}

TEST_F(RouteLoaderTest, AnEmptyLoadStillReachesTheServer) {
  RouteLoader loader(client_, {});
  const auto report = loader.Finish();
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->routes, 0U);
  RouteLoader lost(client_, {.table = "none"});
  EXPECT_EQ(ErrorReason(lost.Finish().status()), "TABLE_NOT_FOUND");
}

TEST_F(RouteLoaderTest, RetriesAfterRetryInfo) {
  proxy_.EndCalls(0, testing::RetryLater(absl::Milliseconds(20)), 3,
                  "UpdateRoutes");
  RouteLoader loader(client_, {});
  ASSERT_TRUE(loader.Add(MakeRoute(1, 1)).ok());
  const absl::Time start = absl::Now();
  EXPECT_TRUE(loader.Finish().ok());
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(60));
  EXPECT_EQ(ServedRoutes().size(), 1U);
}

TEST_F(RouteLoaderTest, AChunkIsPreparedAgainIfTheTableChanged) {
  int prepared = 0;
  RouteLoader loader(client_, {.prepare = [&](v1::UpdateRoutesRequest& chunk) {
                       if (++prepared == 1) {
                         v1::UpdateRoutesRequest other;
                         *other.add_updates() = ToUpdate(MakeRoute(9, 9));
                         EXPECT_TRUE(client_.UpdateRoutes(other).ok());
                         chunk.set_expected_generation(0);
                       }
                       chunk.mutable_updates(0)->set_next_hop_id(7);
                       return absl::OkStatus();
                     }});
  ASSERT_TRUE(loader.Add(MakeRoute(1, 1)).ok());
  EXPECT_TRUE(loader.Finish().ok());
  EXPECT_EQ(prepared, 2);
  EXPECT_EQ(ServedRoutes().at(MakeRoute(1, 1).prefix), 7U);

  RouteLoader refused(client_, {.prepare = [](v1::UpdateRoutesRequest&) {
                        return absl::UnavailableError("no list");
                      }});
  EXPECT_EQ(refused.Finish().status().message(), "no list");
}

TEST_F(RouteLoaderTest, EveryChunkCarriesTheConditions) {
  RouteLoader refused(client_, {.chunk = 1, .ack = v1::ACK_PERSISTED});
  ASSERT_TRUE(refused.Add(MakeRoute(1, 1)).ok());
  EXPECT_EQ(ErrorReason(refused.Add(MakeRoute(2, 1))), "STORE_VOLATILE");

  const size_t before = Updates().size();
  const std::string store = TempPath("loader.db");
  Start(store);
  RouteLoader loader(client_, {.chunk = 1,
                               .ack = v1::ACK_PERSISTED,
                               .writer_epoch = 7,
                               .request_id = "nightly"});
  ASSERT_TRUE(loader.Add(MakeRoute(1, 1)).ok());
  ASSERT_TRUE(loader.Add(MakeRoute(2, 1)).ok());
  ASSERT_TRUE(loader.Finish().ok());
  auto updates = Updates();
  updates.erase(updates.begin(), updates.begin() + before);
  ASSERT_EQ(updates.size(), 2U);
  for (const auto& update : updates) {
    EXPECT_EQ(update.ack(), v1::ACK_PERSISTED);
    EXPECT_EQ(update.writer_epoch(), 7U);
  }
  EXPECT_EQ(updates[0].request_id(), "nightly/1");
  EXPECT_EQ(updates[1].request_id(), "nightly/2");
}

TEST_F(RouteLoaderTest, GivesUpAfterItsPatience) {
  proxy_.EndCalls(0, testing::RetryLater(absl::Milliseconds(20)), UINT64_MAX,
                  "UpdateRoutes");
  RouteLoader loader(client_, {.patience = absl::Milliseconds(100)});
  EXPECT_EQ(loader.Finish().status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(RouteLoaderTest, ARefusedChunkEndsTheLoad) {
  RouteLoader loader(client_, {.chunk = 1});
  ASSERT_TRUE(loader.Add(MakeRoute(1, 0)).ok());  // next hop 0: not sent yet
  EXPECT_EQ(loader.Add(MakeRoute(2, 1)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(ServedRoutes().empty());
}

// With the real server, in whose table `Announce` makes the first generation.
class WholeTableTest : public testing::RealServerFixture {
 protected:
  void Announce(const std::vector<Route>& routes) const {
    v1::UpdateRoutesRequest request;
    for (const Route& route : routes) *request.add_updates() = ToUpdate(route);
    ASSERT_TRUE(TableClient(Channel()).UpdateRoutes(request).ok());
  }
};

// A replacement is atomic.

class RouteReplacerTest : public WholeTableTest {
 protected:
  void SetUp() override {
    // Smaller than what the tests send.
    Start("none", "", {"--max_message_bytes=100000"});
    Announce({MakeRoute(1, 1), MakeRoute(2, 2), MakeRoute(3, 3)});
  }
};

TEST_F(RouteReplacerTest, ChangesWhatDiffers) {
  RouteReplacer replacer(Channel());
  NextHop next_hop;
  next_hop.id = 7;
  ASSERT_TRUE(replacer.Add(next_hop).ok());
  ASSERT_TRUE(replacer.Add(NextHopGroup{.id = 9, .members = {{7, 1}}}).ok());
  ASSERT_TRUE(replacer.Add(MakeRoute(2, 2)).ok());
  ASSERT_TRUE(replacer.Add(MakeRoute(3, 9)).ok());
  ASSERT_TRUE(replacer.Add(MakeRoute(4, 7)).ok());
  EXPECT_EQ(Generation(), 1U);
  const auto response = replacer.Finish();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->generation(), 2U);
  EXPECT_EQ(response->added(), 1U);
  EXPECT_EQ(response->changed(), 1U);
  EXPECT_EQ(response->removed(), 1U);
  EXPECT_EQ(response->unchanged(), 1U);
  EXPECT_THAT(ServedRoutes(), ElementsAre(Pair(MakeRoute(2, 2).prefix, 2),
                                          Pair(MakeRoute(3, 9).prefix, 9),
                                          Pair(MakeRoute(4, 7).prefix, 7)));
  const auto objects = TableClient(Channel()).ListNextHops("");
  ASSERT_TRUE(objects.ok()) << objects.status();
  EXPECT_THAT(objects->next_hops, ElementsAre(MakeNextHop(7)));
  EXPECT_THAT(objects->groups,
              ElementsAre(NextHopGroup{.id = 9, .members = {{7, 1}}}));
}

TEST_F(RouteReplacerTest, NoRoutesEmptyTheTable) {
  ASSERT_TRUE(RouteReplacer(Channel()).Finish().ok());
  EXPECT_THAT(ServedRoutes(), IsEmpty());
}

TEST_F(RouteReplacerTest, SendsChunks) {
  RouteReplacer replacer(Channel());
  constexpr uint32_t kRoutes = 10'000;  // of about 16 bytes
  for (uint32_t i = 0; i < kRoutes; ++i) {
    ASSERT_TRUE(replacer.Add(MakeRoute(i, 1)).ok());
  }
  ASSERT_TRUE(replacer.Finish().ok());
  EXPECT_EQ(ServedRoutes().size(), kRoutes);
}

TEST_F(RouteReplacerTest, WithoutFinishNothingChanges) {
  {
    RouteReplacer replacer(Channel());
    for (uint32_t i = 0; i < 10'000; ++i) {
      ASSERT_TRUE(replacer.Add(MakeRoute(i, 1)).ok());
    }
  }
  EXPECT_EQ(Generation(), 1U);
}

TEST_F(RouteReplacerTest, TheFirstMessageCarriesTheConditions) {
  v1::ReplaceRoutesRequest first;
  first.set_expected_generation(8);
  EXPECT_EQ(ErrorReason(RouteReplacer(Channel(), first).Finish().status()),
            "GENERATION_MISMATCH");
  first.set_expected_generation(1);
  first.set_validate_only(true);
  const auto dry = RouteReplacer(Channel(), first).Finish();
  ASSERT_TRUE(dry.ok()) << dry.status();
  EXPECT_EQ(dry->removed(), 3U);
  EXPECT_EQ(Generation(), 1U);
}

TEST_F(RouteReplacerTest, ARefusalEndsTheAdding) {
  v1::ReplaceRoutesRequest first;
  first.set_table("none");
  RouteReplacer replacer(Channel(), first);
  const absl::Time give_up = absl::Now() + absl::Seconds(20);
  absl::Status status;
  for (uint32_t i = 0; status.ok() && absl::Now() < give_up; ++i) {
    status = replacer.Add(MakeRoute(i, 1));
  }
  EXPECT_EQ(ErrorReason(status), "TABLE_NOT_FOUND") << status;
  EXPECT_EQ(replacer.Finish().status(), status);
}

TEST_F(RouteReplacerTest, EndsByItsDeadline) {
  RouteReplacer replacer(Channel(), {}, absl::Now() - absl::Seconds(1));
  EXPECT_EQ(replacer.Finish().status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Generation(), 1U);
}

// The name refers to the complete new file, or to the old one.

class AtomicFileTest : public ::testing::Test {
 protected:
  AtomicFileTest() {
    std::string name = absl::StrCat(::testing::TempDir(), "/atomicXXXXXX");
    directory_ = mkdtemp(name.data());
    path_ = absl::StrCat(directory_, "/file");
  }
  ~AtomicFileTest() override { std::filesystem::remove_all(directory_); }

  std::string Contents() const { return ContentsOf(path_); }
  size_t FilesInDirectory() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(directory_), {}));
  }

  std::string directory_;
  std::string path_;
};

TEST_F(AtomicFileTest, AppearsWithCommit) {
  {
    AtomicFile file(path_);
    ASSERT_TRUE(file.Append("one ").ok());
    ASSERT_TRUE(file.Append("two").ok());
    EXPECT_FALSE(std::filesystem::exists(path_));
    ASSERT_TRUE(file.Commit().ok()) << file.status();
  }
  EXPECT_EQ(Contents(), "one two");
  EXPECT_EQ(FilesInDirectory(), 1U);
}

TEST_F(AtomicFileTest, WithoutCommitTheOldOneStays) {
  std::ofstream(path_) << "old";
  {
    AtomicFile file(path_);
    ASSERT_TRUE(file.Append("new").ok());
    EXPECT_EQ(FilesInDirectory(), 2U);
  }
  EXPECT_EQ(Contents(), "old");
  EXPECT_EQ(FilesInDirectory(), 1U);
  AtomicFile file(path_);
  ASSERT_TRUE(file.Append("new").ok());
  ASSERT_TRUE(file.Commit().ok());
  EXPECT_EQ(Contents(), "new");
}

TEST_F(AtomicFileTest, ErrorsStayAndNameThePath) {
  AtomicFile file(absl::StrCat(directory_, "/none/file"));
  EXPECT_TRUE(absl::IsNotFound(file.status())) << file.status();
  EXPECT_THAT(std::string(file.status().message()),
              ::testing::HasSubstr("none/file"));
  EXPECT_EQ(file.Append("x"), file.status());
  EXPECT_EQ(file.Commit(), file.status());
  std::filesystem::create_directory(path_);
  AtomicFile onto_directory(path_);
  EXPECT_FALSE(onto_directory.Commit().ok());
}

// A rename would replace them.
TEST_F(AtomicFileTest, ExistingNonFilesStay) {
  const std::string pipe = absl::StrCat(directory_, "/pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink(pipe, path_);
  for (const std::string& path : {pipe, path_}) {
    AtomicFile file(path);
    EXPECT_TRUE(absl::IsInvalidArgument(file.status())) << file.status();
    EXPECT_FALSE(file.Append("x").ok());
    EXPECT_FALSE(file.Commit().ok());
  }
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(FilesInDirectory(), 2U);
}

TEST_F(AtomicFileTest, LinksAreFollowed) {
  const std::string target = absl::StrCat(directory_, "/target");
  std::ofstream(target) << "old";
  std::filesystem::create_symlink(target, path_);
  AtomicFile file(path_);
  ASSERT_TRUE(file.Append("new").ok());
  ASSERT_TRUE(file.Commit().ok());
  EXPECT_EQ(Contents(), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
}

// Exported tables can be imported, and a broken transfer changes nothing.

class SnapshotTransferTest : public WholeTableTest {
 protected:
  void SetUp() override {
    // Smaller than what the tests send.
    Start("none", "", {"--max_message_bytes=100000"});
    Announce({MakeRoute(1, 1), MakeRoute(2, 2)});
    transfer_.emplace(Channel());
  }
  ~SnapshotTransferTest() override { unlink(path_.c_str()); }

  absl::StatusOr<uint64_t> Export(const std::string& table = "") {
    AtomicFile file(path_);
    return transfer_->Export(table, file);
  }
  absl::StatusOr<v1::ReplaceRoutesResponse> Import(
      const v1::ImportSnapshotRequest& first = {}) {
    std::ifstream file(path_, std::ios::binary);
    return transfer_->Import(first, file);
  }
  std::string Contents() const { return ContentsOf(path_); }

  const std::string path_ = absl::StrCat(::testing::TempDir(), "/snapshot");
  std::optional<SnapshotTransfer> transfer_;
};

TEST_F(SnapshotTransferTest, LargeFilesGoInChunks) {
  std::ofstream(path_) << std::string(200'000, 'x');
  EXPECT_EQ(ErrorReason(Import().status()), "SNAPSHOT_INVALID");
}

TEST_F(SnapshotTransferTest, ABrokenExportLeavesTheOldFile) {
  std::ofstream(path_) << "old";
  testing::MisbehavingProxy proxy(target_);
  proxy.EndCalls(1, grpc::Status(grpc::StatusCode::UNAVAILABLE, "away"), 1,
                 "ExportSnapshot");
  AtomicFile file(path_);
  EXPECT_TRUE(absl::IsUnavailable(
      SnapshotTransfer(proxy.Channel()).Export("", file).status()));
  EXPECT_EQ(Contents(), "old");
  EXPECT_EQ(ErrorReason(Export("none").status()), "TABLE_NOT_FOUND");
  EXPECT_EQ(Contents(), "old");
}

TEST_F(SnapshotTransferTest, AFileThatCannotBeWrittenEndsAnExport) {
  AtomicFile file("/nonexistent/file");
  const auto bytes = transfer_->Export("", file);
  EXPECT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.status(), file.status());
}

TEST_F(SnapshotTransferTest, ACorruptSnapshotChangesNothing) {
  ASSERT_TRUE(Export().ok());
  truncate(path_.c_str(), 10);
  EXPECT_TRUE(absl::IsDataLoss(Import().status()));
  std::ifstream directory("/");
  EXPECT_TRUE(absl::IsAborted(transfer_->Import({}, directory).status()));
  EXPECT_EQ(Generation(), 1U);
}

TEST_F(SnapshotTransferTest, TheFirstMessageCarriesTheConditions) {
  ASSERT_TRUE(Export().ok());
  v1::ImportSnapshotRequest first;
  first.set_expected_generation(9);
  EXPECT_EQ(ErrorReason(Import(first).status()), "GENERATION_MISMATCH");
}

}  // namespace
}  // namespace planb::client
