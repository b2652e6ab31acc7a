// A CoalescingLookup's batches over a server's stream that reconnects.
//
//   auto open = ChannelsTo("unix:///run/planb/planb.sock");
//   auto lookup = MakeCoalescingLookup(*open, {});
//   NextHopId next_hop = lookup->Lookup(address).get().value().next_hop;

#ifndef PLANB_CLIENT_LOOKUP_TRANSPORT_H_
#define PLANB_CLIENT_LOOKUP_TRANSPORT_H_

#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/batch_lookup.h"
#include "client/batch_transport.h"
#include "client/coalescing_lookup.h"

namespace planb::client {

// Invariant: the batches that wait are those in flight on the handle, in order.
// Thread-safe; starts one thread, which receives and calls `done`.
class LookupTransport : public BatchTransport {
 public:
  // Looks up in `table`; empty means "default". When the handle gives up, every
  // batch from then on fails with its reason, so let it not give up.
  LookupTransport(OpenChannel open, const BatchLookupOptions& options,
                  std::string table);
  ~LookupTransport() override;

  // Blocks while the connection takes no more. REQUIRES: fewer batches than the
  // options' max_in_flight are under way.
  void Start(absl::string_view addresses_v6, absl::string_view addresses_v4,
             Done done) override;
  void Shutdown() override;

 private:
  void Receive();

  const std::string table_;
  BatchLookup lookup_;

  // Held while sending, so that Sends are in the order of waiting_.
  absl::Mutex send_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  absl::Mutex mutex_;
  std::deque<Done> waiting_ ABSL_GUARDED_BY(mutex_);
  // Why nothing is received any more; OK until then.
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);

  absl::Mutex join_mutex_;
  std::thread receiver_ ABSL_GUARDED_BY(join_mutex_);
};

// How to connect for lookups that go on for ever, each with its own deadline.
struct CoalescingClientOptions {
  CoalescingOptions coalescing = {};
  // max_in_flight is that of the batching.
  BatchLookupOptions lookup = {.give_up_after = absl::InfiniteDuration()};
  // Empty means "default".
  std::string table = {};
};

// The whole: calls, batches, stream.
std::unique_ptr<CoalescingLookup> MakeCoalescingLookup(
    OpenChannel open, const CoalescingClientOptions& options);

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOOKUP_TRANSPORT_H_
