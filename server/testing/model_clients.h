// SPDX-License-Identifier: Apache-2.0

// The clients of the model test. They change, look up, list, copy and watch one
// table at random, and record all answers.

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

// What the clients of one table share, from its creation to its deletion.
// Thread-safe.
struct ModelRun {
  // Channels to the servers that share the table. Reader and watcher N call
  // server N, in turns; writers call all.
  std::vector<std::string> targets;
  uint64_t seed = 1;
  std::string table;   // "" is the default table, which is not deleted
  uint64_t first = 0;  // the generation at which it was created
  HistoryRecorder history;
  std::atomic<bool> stop = false;
  // The newest generation in an answer to a writer.
  std::atomic<uint64_t> accepted = 0;
  // The highest epoch of any writer.
  std::atomic<uint64_t> epoch = 0;
  // The generation at which watchers stop; 0: not yet known.
  std::atomic<uint64_t> last_generation = 0;
  // The number of streams opened.
  std::atomic<int> streams = 0;
  // The number of request ids used. The server remembers the last thousand.
  std::atomic<uint64_t> named = 0;

  int ServerOf(int client) const {
    return client % static_cast<int>(targets.size());
  }
  const std::string& TargetOf(int client) const {
    return targets[static_cast<size_t>(ServerOf(client))];
  }
  // Records a call of this client.
  template <typename Call>
  void Add(int client, std::vector<Call> ModelHistory::*list, Call call) {
    call.server = ServerOf(client);
    history.Add(list, std::move(call));
  }
  void Surprise(const std::string& what) {
    history.Add(&ModelHistory::surprises, what);
  }
  // Records a call that failed, if its failure says anything.
  void Failed(int client, const char* what, Instant begin,
              const grpc::Status& status);
};

inline Instant Now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

inline void Raise(std::atomic<uint64_t>& to, uint64_t value) {
  uint64_t old = to.load();
  while (old < value && !to.compare_exchange_weak(old, value)) {
  }
}

// A channel with a connection of its own. It reconnects every 20 ms, and an
// attempt may take 300 ms.
inline std::shared_ptr<grpc::Channel> ModelChannel(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 300);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 20);
  // Only the writers repeat requests.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(),
                                   arguments);
}

inline void Limit(grpc::ClientContext& context,
                  std::chrono::milliseconds limit) {
  context.set_deadline(std::chrono::system_clock::now() + limit);
  context.set_wait_for_ready(true);
}

// The reason in the status's ErrorInfo; "" without one.
inline std::string ModelReason(const grpc::Status& status) {
  google::rpc::Status rich;
  rich.ParseFromString(status.error_details());
  google::rpc::ErrorInfo info;
  for (const auto& detail : rich.details()) {
    if (detail.UnpackTo(&info)) return info.reason();
  }
  return "";
}

// Returns whether the server died or did not answer.
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

inline void ModelRun::Failed(int client, const char* what, Instant begin,
                             const grpc::Status& status) {
  const std::string reason = ModelReason(status);
  const bool writes = absl::string_view(what) == "StreamUpdates";
  // The status of a stream may lack the reason. A server that is told of a
  // deletion by the store does not know whether the name is used again.
  if ((status.error_code() == grpc::StatusCode::NOT_FOUND &&
       (reason.empty() || reason == "TABLE_NOT_FOUND")) ||
      (writes && status.error_code() == grpc::StatusCode::ABORTED &&
       (reason.empty() || reason == "STORE_CONFLICT"))) {
    Add(client, &ModelHistory::absents, AbsentCall{begin, Now(), 0, writes});
  } else if (!status.ok() && !IsBroken(status)) {
    Surprise(DescribeStatus(what, status));
  }
}

// Looks at the table all the time, by every method that reads.
// Thread-compatible: each thread has its own.
class ModelReader {
 public:
  // REQUIRES: `run` outlives it.
  ModelReader(ModelRun& run, int number);

  // Until the run stops.
  void Run();

  // Calls ListRoutes. Returns false if it failed.
  bool List(ListCall& call);
  // Calls ListNextHops.
  void Objects();
  // Calls ExportSnapshot.
  void Export();
  // Calls GetTable.
  bool State(StateCall& call);

 private:
  void Stream();
  void Lookup();
  void GetRoute();
  void Explain();

  ModelRun& run_;
  const int number_;
  Random random_;
  std::unique_ptr<v1::RouteLookup::Stub> lookup_;
  std::unique_ptr<v1::RouteTable::Stub> table_;
};

// Changes the table at random by every method that writes, at any of the
// servers, and repeats calls of unknown outcome. Thread-compatible: each thread
// has its own.
class ModelWriter {
 public:
  // REQUIRES: `run` outlives it; no other writer of the run has this number.
  ModelWriter(ModelRun& run, int number);

  // Until the run stops.
  void Run();

 private:
  // Makes a random call.
  WriteCall Invent();
  void AddTerms(WriteCall& call);
  std::string NewRequestId();

  // Returns whether the server certainly remembers a request id that was used
  // when ModelRun::named was `since`.
  bool Remembered(uint64_t since) const;

  // Makes a unary call. One with a request id is repeated until it has an
  // answer.
  void Perform(WriteCall call, uint64_t since);
  // Makes a call once, at one of the servers, fills in its outcome and records
  // it.
  void Attempt(WriteCall& call);
  // Returns the next server, mostly the same.
  int PickServer();

  // Sends batches on one stream, all with the epoch of the first.
  void Stream(std::vector<WriteCall> calls, uint64_t since);
  void ReadAnswer(const v1::StreamUpdatesResponse& response, WriteCall& call);

  void Judge(const grpc::Status& status, WriteCall& call);
  static void Refused(const std::string& reason, WriteCall& call);
  void Record(const WriteCall& call);

  ModelRun& run_;
  const int number_;
  Random random_;
  std::vector<std::unique_ptr<v1::RouteTable::Stub>> stubs_;  // of the servers
  uint64_t epoch_ = 0;
  int named_ = 0;
  // The last answered unary calls with request ids, each with the
  // ModelRun::named before it.
  std::deque<std::pair<uint64_t, WriteCall>> answered_;
};

// Follows the table by watches. After HISTORY_COMPACTED it continues from a
// list. Thread-compatible.
class ModelWatcher {
 public:
  ModelWatcher(ModelRun& run, int number);

  // Runs until it has seen ModelRun::last_generation, or, with a table that is
  // deleted, until the run stops.
  void Run();

 private:
  void Watch();

  ModelRun& run_;
  const int number_;
  Random random_;
  ModelReader lists_;
  std::unique_ptr<v1::RouteTable::Stub> stub_;
  // The last complete generation and its digest; empty after a list.
  uint64_t generation_ = 0;
  std::string digest_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MODEL_CLIENTS_H_
