// SPDX-License-Identifier: Apache-2.0

// A PlanB Lookup server for the client's tests, in the test's process, on its
// own Unix socket. It misbehaves on demand.

#ifndef PLANB_CLIENT_TESTING_FAKE_SERVER_H_
#define PLANB_CLIENT_TESTING_FAKE_SERVER_H_

#include <grpcpp/channel.h>
#include <grpcpp/server.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "client/testing/fake_table.h"
#include "lpm/address.h"
#include "planb/v1/route_lookup.grpc.pb.h"
#include "planb/v1/route_lookup.pb.h"
#include "planb/v1/route_table.grpc.pb.h"

namespace planb::client::testing {

// The defect of BatchLookup's replies.
enum class Spoil {
  kNothing,
  kWrongId,       // another request's id
  kShort,         // one next hop too few
  kTwice,         // every reply comes twice (that is the server's part)
  kWrongNextHop,  // the first answer of a batch is off by one
};

struct FakeServerOptions {
  std::vector<Route> routes = {};
  size_t max_lookup_addresses = 1000;
  // Initial credits of a stream of updates.
  uint64_t update_credits = 1000;
  // Reports every accepted generation as persisted.
  bool durable = false;
};

// Thread-safe. Serves from construction to destruction. Has only the table
// "default".
class FakeServer {
 public:
  explicit FakeServer(const FakeServerOptions& options = {});
  ~FakeServer();

  // "unix:///..."
  const std::string& target() const { return target_; }
  std::shared_ptr<grpc::Channel> Channel() const;

  // Replies to batches wait from Hold until Release.
  void Hold();
  void Release();
  // Each of the next `streams` streams ends with `status` instead of answering
  // its batch number `batches` (counted from 0). Also applies to streams of
  // updates, and to watches and exports, where messages are counted.
  void EndStreams(uint64_t batches, const grpc::Status& status,
                  uint64_t streams = UINT64_MAX);
  // Each of the next `streams` streams answers `batches` batches, and answers
  // later ones with DRAINING in band.
  void DrainStreams(uint64_t batches, uint64_t streams);
  void SpoilReplies(Spoil how) { spoil_ = how; }
  // The next `calls` calls of UpdateRoutes fail with `status`.
  void FailUpdates(int calls, const grpc::Status& status);
  // Watches of "default" can only start from the current generation.
  void ForgetHistory();
  void SetServing(bool serving);
  // ListReplicas answers this. Until it is called, ListReplicas fails with
  // FAILED_PRECONDITION (STORE_NOT_SHARED).
  void SetReplicas(const v1::ListReplicasResponse& replicas);
  // Breaks every connection and stops. REQUIRES: no other call is running.
  void Die();
  // Serves again after Die, at the same target, with the initial table.
  void Restart();

  // Counts and copies of the requests so far.
  uint64_t batches_read() const { return batches_read_; }
  uint64_t streams_opened() const { return streams_opened_; }
  uint64_t lookups_called() const { return lookups_called_; }
  uint64_t lists_called() const { return lists_called_; }  // of next hops
  std::vector<v1::UpdateRoutesRequest> updates() const;
  // The table "default".
  FakeTable table() const;

 private:
  class LookupService;
  class TableService;

  // When and how a stream misbehaves.
  struct Fate {
    uint64_t end_after = UINT64_MAX;
    uint64_t drain_after = UINT64_MAX;
    grpc::Status status = {};
  };

  static grpc::Status NoTable(const std::string& table);

  FakeTable FirstTable() const;
  std::unique_ptr<grpc::Service> MakeTableService();
  void Start();
  Fate NextFate();
  // Returns false if the call was cancelled before the release.
  bool AwaitRelease(const grpc::ServerContextBase& context) const;

  const FakeServerOptions options_;
  std::string target_;
  std::unique_ptr<LookupService> lookup_service_;
  std::unique_ptr<grpc::Service> table_service_;
  std::unique_ptr<grpc::Server> server_;

  mutable absl::Mutex mutex_;
  FakeTable table_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::UpdateRoutesRequest> updates_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  int failing_updates_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::Status update_error_ ABSL_GUARDED_BY(mutex_);
  v1::ListReplicasResponse replicas_ ABSL_GUARDED_BY(mutex_);
  Fate fate_ ABSL_GUARDED_BY(mutex_);
  uint64_t fated_streams_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<Spoil> spoil_ = Spoil::kNothing;
  std::atomic<uint64_t> batches_read_ = 0;
  std::atomic<uint64_t> streams_opened_ = 0;
  std::atomic<uint64_t> lookups_called_ = 0;
  std::atomic<uint64_t> lists_called_ = 0;
};

}  // namespace planb::client::testing

#endif  // PLANB_CLIENT_TESTING_FAKE_SERVER_H_
