// A target is checked once, so that making a channel to it cannot fail later.

#include "client/batch_lookup_options.h"

#include <grpcpp/security/credentials.h>

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace planb::client {
namespace {

using Credentials = std::shared_ptr<grpc::ChannelCredentials>;

// The newest credentials that could be used. Thread-safe.
class LastGood {
 public:
  explicit LastGood(Credentials first) : last_(std::move(first)) {}

  Credentials Renew(const std::optional<TlsOptions>& options) {
    absl::StatusOr<Credentials> fresh = MakeCredentials(options);
    absl::MutexLock lock(&mutex_);
    if (fresh.ok()) last_ = *std::move(fresh);
    return last_;
  }

 private:
  absl::Mutex mutex_;
  Credentials last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<OpenChannel> ChannelsTo(absl::string_view target,
                                       const ChannelOptions& options) {
  ChannelOptions own = options;
  own.own_connection = true;
  auto first = MakeCredentials(own.tls);
  if (!first.ok()) return first.status();
  if (auto channel = MakeChannel(target, own, *first); !channel.ok()) {
    return channel.status();
  }
  return [target = std::string(target), own,
          credentials = std::make_shared<LastGood>(*std::move(first))] {
    return MakeChannel(target, own, credentials->Renew(own.tls)).value();
  };
}

}  // namespace planb::client
