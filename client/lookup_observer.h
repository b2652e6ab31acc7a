// What a BatchLookup tells whoever keeps its metrics.

#ifndef PLANB_CLIENT_LOOKUP_OBSERVER_H_
#define PLANB_CLIENT_LOOKUP_OBSERVER_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace planb::client {

// Override what is of interest. The handle calls from within its own calls, on
// any of the caller's threads, one at a time for each handle, and with its lock
// held: be quick, and do not call the handle. An observer outlives its handles;
// one that has several is called by them at the same time.
class LookupObserver {
 public:
  virtual ~LookupObserver() = default;

  // A batch was accepted.
  virtual void OnSent(size_t /*addresses*/) {}

  // Its result was handed out, `latency` after it was accepted. `status` is OK,
  // the batch's own error, CANCELLED or DEADLINE_EXCEEDED.
  virtual void OnAnswered(size_t /*addresses*/, absl::Duration /*latency*/,
                          const absl::Status& /*status*/) {}

  // The connection was lost, or an attempt to get one failed, or the server
  // said that it is draining. The next attempt comes after `wait`.
  virtual void OnDisconnect(const absl::Status& /*why*/,
                            absl::Duration /*wait*/) {}

  // A new stream follows the lost one, and `batches` go out a second time.
  virtual void OnReconnect(size_t /*batches*/) {}

  // The handle has come to its end, for this reason.
  virtual void OnEnd(const absl::Status& /*why*/) {}
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOOKUP_OBSERVER_H_
