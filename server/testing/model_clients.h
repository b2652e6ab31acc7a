// SPDX-License-Identifier: Apache-2.0

// The clients of the model test: they change, look up, list and watch one table
// at random, and record all that they are told.

#ifndef PLANB_SERVER_TESTING_MODEL_CLIENTS_H_
#define PLANB_SERVER_TESTING_MODEL_CLIENTS_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "planb/v1/route_lookup.grpc.pb.h"
#include "planb/v1/route_table.grpc.pb.h"
#include "server/testing/model.h"

namespace planb::server {

// Thread-safe.
struct ModelRun {
  std::string target;
  uint64_t seed = 1;
  HistoryRecorder history;
  std::atomic<bool> stop = false;
  // The newest generation that a writer was told of.
  std::atomic<uint64_t> accepted = 0;
  // The highest epoch any writer took.
  std::atomic<uint64_t> epoch = 0;
  // Until where watchers go on when all others have stopped; 0: not yet known.
  std::atomic<uint64_t> last_generation = 0;
  std::atomic<int> streams = 0;  // numbers them
  // Request ids given out, of which the server remembers the last thousand.
  std::atomic<uint64_t> named = 0;

  void Surprise(const std::string& what) {
    history.Add(&ModelHistory::surprises, what);
  }
};

inline Instant Now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

inline void Raise(std::atomic<uint64_t>& to, uint64_t value) {
  uint64_t old = to.load();
  while (old < value && !to.compare_exchange_weak(old, value)) {
  }
}

// A connection of its own, which looks for a server that is gone every 20 ms,
// and gives one that does not answer some time.
inline std::shared_ptr<grpc::Channel> ModelChannel(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 300);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 20);
  // Only who made a request may repeat it.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(),
                                   arguments);
}

inline void Limit(grpc::ClientContext& context,
                  std::chrono::milliseconds limit) {
  context.set_deadline(std::chrono::system_clock::now() + limit);
  context.set_wait_for_ready(true);
}

// ErrorInfo's, or "".
inline std::string ModelReason(const grpc::Status& status) {
  google::rpc::Status rich;
  rich.ParseFromString(status.error_details());
  google::rpc::ErrorInfo info;
  for (const auto& detail : rich.details()) {
    if (detail.UnpackTo(&info)) return info.reason();
  }
  return "";
}

// Whether a call ended as any may when its server dies or does not answer.
inline bool IsBroken(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == grpc::StatusCode::CANCELLED;
}

inline std::string DescribeStatus(const char* what,
                                  const grpc::Status& status) {
  return absl::StrCat(what, " ended with ",
                      static_cast<int>(status.error_code()), " ",
                      ModelReason(status), ": ", status.error_message());
}

// Thread-compatible: a thread has one of its own.
class ModelReader {
 public:
  // REQUIRES, as below: `run` outlives it.
  ModelReader(ModelRun& run, int number);

  // Until the run stops.
  void Run();

  // ListRoutes; false if it failed.
  bool List(ListCall& call);
  // GetTable.
  bool State(StateCall& call);

 private:
  void Stream();
  void Lookup();
  void GetRoute();
  void Explain();

  ModelRun& run_;
  Random random_;
  std::unique_ptr<v1::RouteLookup::Stub> lookup_;
  std::unique_ptr<v1::RouteTable::Stub> table_;
};

// Thread-compatible: a thread has one of its own.
class ModelWriter {
 public:
  // REQUIRES: `run` outlives it; no other writer of the run has this number.
  ModelWriter(ModelRun& run, int number);

  // Until the run stops.
  void Run();

 private:
  // Makes up one call.
  WriteCall Invent();
  void AddTerms(WriteCall& call);
  std::string NewRequestId();

  // Whether the server surely knows a request id that was given out after the
  // run's first `since`.
  bool Remembered(uint64_t since) const;

  // Makes a unary call, and repeats it until it has an answer, if it may.
  void Perform(WriteCall call, uint64_t since);
  // Once; fills in what came of it and records it.
  void Attempt(WriteCall& call);

  // Several batches on one stream, all with the epoch of the first.
  void Stream(std::vector<WriteCall> calls, uint64_t since);
  void ReadAnswer(const v1::StreamUpdatesResponse& response, WriteCall& call);

  void Judge(const grpc::Status& status, WriteCall& call);
  void Record(const WriteCall& call);

  ModelRun& run_;
  const int number_;
  Random random_;
  std::unique_ptr<v1::RouteTable::Stub> stub_;
  uint64_t epoch_ = 0;
  int named_ = 0;
  // Unary, with request ids, the last few; and how many ids there were before.
  std::deque<std::pair<uint64_t, WriteCall>> answered_;
};

// Follows the table by watching alone, and by a list only when the server has
// forgotten where it was. Thread-compatible.
class ModelWatcher {
 public:
  ModelWatcher(ModelRun& run, int number);

  // Until the run stops and all its generations were seen.
  void Run();

 private:
  void Watch();

  ModelRun& run_;
  Random random_;
  ModelReader lists_;
  std::unique_ptr<v1::RouteTable::Stub> stub_;
  // The last complete generation and the digest of its routes.
  uint64_t generation_ = 0;
  std::string digest_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MODEL_CLIENTS_H_
