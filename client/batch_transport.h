// What carries batches for a CoalescingLookup: a server's stream, or a test.

#ifndef PLANB_CLIENT_BATCH_TRANSPORT_H_
#define PLANB_CLIENT_BATCH_TRANSPORT_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lpm/prefix.h"

namespace planb::client {

// Thread-safe.
class BatchTransport {
 public:
  // What became of a batch. `next_hops` has an answer for each address if
  // `status` is OK, and is valid during the call that passes it.
  struct Outcome {
    absl::Status status;
    uint64_t generation = 0;
    absl::Span<const NextHopId> next_hops = {};
  };
  using Done = std::function<void(const Outcome&)>;

  virtual ~BatchTransport() = default;

  // Looks up packed addresses, which may be reused when this returns. Calls
  // `done` once, in any thread, perhaps this one before it returns, holding no
  // lock that Start takes.
  virtual void Start(absl::string_view addresses_v6,
                     absl::string_view addresses_v4, Done done) = 0;

  // Ends every batch under way, and those that follow, at once and badly. When
  // this returns, `done` was called for every Start that had returned, and no
  // such call is running. Not to be called from within `done`.
  virtual void Shutdown() = 0;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_BATCH_TRANSPORT_H_
