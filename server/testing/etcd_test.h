// SPDX-License-Identifier: Apache-2.0

// What the tests of the store that servers share have in common.

#ifndef PLANB_SERVER_TESTING_ETCD_TEST_H_
#define PLANB_SERVER_TESTING_ETCD_TEST_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/store/etcd_store.h"
#include "server/table/tables.h"
#include "server/testing/etcd_cluster.h"

namespace planb::server {

// One etcd for all tests of a program; each test has its own prefix.
class EtcdTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (EtcdCluster::Available()) cluster_ = new EtcdCluster(1);
  }
  static void TearDownTestSuite() {
    delete cluster_;
    cluster_ = nullptr;
  }
  void SetUp() override {
    if (cluster_ == nullptr) GTEST_SKIP() << "there is no program etcd";
    static int count = 0;
    prefix_ = absl::StrCat("test", ++count);
  }

  EtcdStoreOptions Options() const { return Options(cluster_->Url(prefix_)); }
  static EtcdStoreOptions Options(const std::string& url) {
    EtcdStoreOptions options;
    options.etcd = ParseEtcdUrl(url).value();
    return options;
  }
  std::unique_ptr<EtcdStore> Open() const { return Open(Options()); }
  static std::unique_ptr<EtcdStore> Open(const EtcdStoreOptions& options) {
    auto store = EtcdStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  // The keys that begin with `rest` below the prefix.
  std::vector<etcdserverpb::KeyValue> Read(absl::string_view rest) const {
    std::vector<etcdserverpb::KeyValue> found;
    const auto read =
        cluster_->Client("")->ReadPrefix(absl::StrCat(prefix_, "/", rest), 0,
                                         [&](const etcdserverpb::KeyValue& kv) {
                                           found.push_back(kv);
                                           return absl::OkStatus();
                                         });
    EXPECT_TRUE(read.ok()) << read.status();
    return found;
  }
  void Put(absl::string_view rest, const std::string& value) const {
    etcdserverpb::PutRequest put;
    put.set_key(absl::StrCat(prefix_, "/", rest));
    put.set_value(value);
    EXPECT_TRUE(cluster_->Client("")->Put(put).ok());
  }
  void Erase(absl::string_view rest) const {
    etcdserverpb::DeleteRangeRequest request;
    request.set_key(absl::StrCat(prefix_, "/", rest));
    EXPECT_TRUE(cluster_->Client("")->DeleteRange(request).ok());
  }

  inline static EtcdCluster* cluster_ = nullptr;
  std::string prefix_;
};

// A server without its services: the tables on a store.
struct Node {
  explicit Node(std::unique_ptr<EtcdStore> opened)
      : store(std::move(opened)), tables({}, store.get()) {
    const absl::Status restored = tables.Restore();
    EXPECT_TRUE(restored.ok()) << restored;
  }
  ~Node() { tables.Drain(SteadyNow()); }

  std::unique_ptr<EtcdStore> store;
  Tables tables;
};

// The entries of a table's log, and the key of one, below the prefix.
inline std::string EntriesOf(uint64_t table) {
  return absl::StrCat("state/logs/", absl::Hex(table, absl::kZeroPad16), "/");
}
inline std::string EntryKey(uint64_t table, uint64_t number) {
  return absl::StrCat(EntriesOf(table), absl::Hex(number, absl::kZeroPad16));
}

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_ETCD_TEST_H_
