// How a BatchLookup connects, and when it gives up.

#ifndef PLANB_CLIENT_BATCH_LOOKUP_OPTIONS_H_
#define PLANB_CLIENT_BATCH_LOOKUP_OPTIONS_H_

#include <grpcpp/channel.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/backoff.h"
#include "client/channel.h"
#include "client/lookup_observer.h"

namespace planb::client {

struct BatchLookupOptions {
  // Batches accepted and not yet handed out by Receive, at most; at least 1.
  size_t max_in_flight = 8;
  // Between attempts to connect.
  BackoffOptions backoff = {};
  // Give up when attempts have failed for so long, with no answer in between.
  // Zero: never try again.
  absl::Duration give_up_after = absl::Minutes(1);
  // A stream that owes replies and is silent for so long is as good as broken.
  absl::Duration stall_timeout = absl::InfiniteDuration();
  // Not owned; may be null.
  LookupObserver* observer = nullptr;
};

// Makes a channel for each attempt, but those that follow a refusal by a server
// itself. gRPC keeps a backoff of its own for each channel; with a new one the
// options above are what counts.
using OpenChannel = std::function<std::shared_ptr<grpc::Channel>()>;

// Channels to `target`, each with its own connection, as by MakeChannel. Each
// reads the files of TLS anew; those that cannot be used then are passed over
// for what was there before. Thread-safe.
// Errors: as there.
absl::StatusOr<OpenChannel> ChannelsTo(absl::string_view target,
                                       const ChannelOptions& options = {});

}  // namespace planb::client

#endif  // PLANB_CLIENT_BATCH_LOOKUP_OPTIONS_H_
