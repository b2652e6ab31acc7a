// What one BGP UPDATE did, and who takes it.

#ifndef PLANB_LPM_IO_UPDATE_EVENT_H_
#define PLANB_LPM_IO_UPDATE_EVENT_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lpm/io/bgp_update.h"
#include "lpm/io/peer_table.h"

namespace planb {

struct UpdateEvent {
  absl::Time at;
  Peer peer;
  // What the collector said to the peer, not what it heard from it.
  bool local = false;
  BgpUpdate update;  // never empty
};

// Takes events in the order of the file, which need not be that of time. An
// error ends the reading and is returned by it.
class UpdateSink {
 public:
  virtual ~UpdateSink() = default;
  virtual absl::Status OnUpdate(const UpdateEvent& event) = 0;
};

}  // namespace planb

#endif  // PLANB_LPM_IO_UPDATE_EVENT_H_
