// SPDX-License-Identifier: Apache-2.0

// What all clients of one run share: where the server is, what they have heard
// of it, and the history that they write.

#ifndef PLANB_SERVER_TESTING_MODEL_RUN_H_
#define PLANB_SERVER_TESTING_MODEL_RUN_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/testing/model_history.h"

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

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MODEL_RUN_H_
