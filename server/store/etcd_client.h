// SPDX-License-Identifier: Apache-2.0

// Calls of etcd's API, version 3: to any of its members, with a bound on the
// time of each.

#ifndef PLANB_SERVER_STORE_ETCD_CLIENT_H_
#define PLANB_SERVER_STORE_ETCD_CLIENT_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "etcd.pb.h"
#include "server/base/client_channel.h"

namespace planb::server {

struct EtcdOptions {
  std::vector<std::string> endpoints;  // HOST:PORT, at least one
  // Before all keys, with a slash at its end.
  std::string prefix;
  // Empty: without authentication.
  std::string user;
  std::string password;
  TlsFiles tls;
  // How long one attempt may take, and a call with all its attempts.
  absl::Duration attempt_timeout = absl::Seconds(2);
  absl::Duration timeout = absl::Seconds(10);
};

// The smallest key that does not begin with `prefix`, for ranges.
std::string EndOfPrefix(std::string prefix);

// Repeats a call at another member when one does not answer. A transaction is
// then made twice, perhaps: it must compare what it changes. Thread-safe.
class EtcdClient {
 public:
  // Does not connect. Errors: those of StartClientTls().
  static absl::StatusOr<std::unique_ptr<EtcdClient>> Create(
      EtcdOptions options);

  // Errors of all calls: those of etcd; UNAVAILABLE or DEADLINE_EXCEEDED if no
  // member answered in time, and then a change may still be made; CANCELLED
  // after Cancel().
  // `timeout`: if shorter than that of the options. Sets `lost` if an attempt
  // had no answer: then etcd may have made the transaction, or may still make
  // it, also if an error is returned.
  absl::StatusOr<etcdserverpb::TxnResponse> Txn(
      const etcdserverpb::TxnRequest& request,
      absl::Duration timeout = absl::InfiniteDuration(), bool* lost = nullptr);
  absl::StatusOr<etcdserverpb::RangeResponse> Range(
      const etcdserverpb::RangeRequest& request);
  absl::Status Put(const etcdserverpb::PutRequest& request);
  absl::Status DeleteRange(const etcdserverpb::DeleteRangeRequest& request);
  absl::Status Compact(int64_t revision);
  // A lease of `seconds`; returns its id.
  absl::StatusOr<int64_t> GrantLease(int64_t seconds);
  // Errors besides: NOT_FOUND if the lease has ended.
  absl::Status KeepLease(int64_t lease);
  absl::Status RevokeLease(int64_t lease);

  // Calls `read` for each key with this prefix, ascending, as of `revision` (0:
  // the newest; returns the one that was read), in pages. One that does not
  // come in time, or is too large, is asked for again with fewer keys. Stops at
  // an error of `read`.
  absl::StatusOr<int64_t> ReadPrefix(
      const std::string& prefix, int64_t revision,
      absl::FunctionRef<absl::Status(const etcdserverpb::KeyValue&)> read);

  // Watches keys with this prefix from `revision` on. Calls `event` for each
  // response until it returns an error, the connection ends, or nothing comes
  // for `silence` although a progress request is sent at every third of it.
  // Returns why it ended.
  absl::Status Watch(
      const std::string& prefix, int64_t revision, absl::Duration silence,
      absl::FunctionRef<absl::Status(const etcdserverpb::WatchResponse&)>
          event);

  // How often an answer was of another history than those before: of another
  // cluster, or at a revision below one that an answer had before the call
  // began. So it is when etcd was put back from a backup.
  uint64_t histories() {
    const MutexLock lock(mutex_);
    return seen_.histories;
  }

  // Ends calls in progress and later ones.
  void Cancel();

  const EtcdOptions& options() const { return options_; }

  // Null in plaintext.
  TlsReloader* tls() { return tls_ == nullptr ? nullptr : &tls_->reloader(); }

 private:
  explicit EtcdClient(EtcdOptions options) : options_(std::move(options)) {}

  // What the answers of etcd had so far.
  struct Seen {
    uint64_t cluster = 0;  // 0: none
    int64_t revision = 0;
    uint64_t histories = 0;
  };
  Seen seen() {
    const MutexLock lock(mutex_);
    return seen_;
  }
  // Takes the header of an answer that is not below any given before its call
  // began, when `before` was seen.
  void See(const etcdserverpb::ResponseHeader& header, const Seen& before);

  // A context that Cancel() ends while this lives.
  class Context;

  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(
      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                   Response*),
      const Request& request, absl::Duration timeout = absl::InfiniteDuration(),
      bool* lost = nullptr);
  absl::Status Authenticate(const std::shared_ptr<grpc::Channel>& channel,
                            SteadyInstant deadline);
  const std::shared_ptr<grpc::Channel>& ChannelTo(size_t turn) const {
    return channels_[turn % channels_.size()];
  }
  // Goes on to the next member. Calls that fail at one member together do so
  // once.
  void Rotate(size_t turn) { turn_.compare_exchange_strong(turn, turn + 1); }

  const EtcdOptions options_;
  std::unique_ptr<TlsProvider> tls_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::atomic<size_t> turn_ = 0;  // which of them calls go to
  Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  Seen seen_ ABSL_GUARDED_BY(mutex_);
  std::set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_ETCD_CLIENT_H_
