// SPDX-License-Identifier: Apache-2.0

// The stages of the PlanB paper's router (section 3.7): RX threads take bursts
// from the ports, LPM threads look them up, TX threads send them.
//
//   port -> RX -> ring of each LPM core, by flow -> LPM -> ring of each TX
//   core, by port -> TX -> port
//
// A flow has one LPM core and one port, and each ring one writer and one
// reader, so packets of a flow stay in order. Bursts are looked up as they are
// found in the rings: nothing waits for one to fill. Fused, LPM threads send.

#ifndef PLANB_EXAMPLES_ROUTER_PIPELINE_H_
#define PLANB_EXAMPLES_ROUTER_PIPELINE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "examples/router/fib.h"
#include "examples/router/next_hops.h"
#include "examples/router/packet.h"

struct rte_ring;

namespace planb::router {

// What threads spend their time on.
enum class Part : uint8_t {
  kReception,  // polls ports, checks packets, gives them to LPM cores
  kLookup,     // asks the table
  kLpm,        // all else of LPM
  kSending,    // gives packets to ports; all of a TX thread
};
inline constexpr size_t kParts = 4;

struct PipelineOptions {
  // Started, with a TX queue for each core that sends.
  std::vector<Port> ports;
  // The core of each thread of a stage. Stages with the same core share a
  // thread, which polls them in turn.
  std::vector<int> rx = {0};
  std::vector<int> lpm = {0};
  std::vector<int> tx = {0};
  bool fused = false;  // without `tx`
  size_t burst = 32;
  size_t ring = 1024;  // packets between two threads; a power of two
  // ICMP errors a second of each LPM core, and at once.
  double icmp_rate = 100;
  double icmp_burst = 20;
  // Packets that an LPM core keeps for a neighbour that is being found, and for
  // all of them, for how long. 0: none, where nothing finds neighbours. Beyond
  // all, the first neighbours of a next hop that lacks the most give way to
  // other next hops.
  size_t hold_neighbor = 0;
  size_t hold_total = 256;
  double hold_seconds = 1;
  // A thread that found nothing to do in many turns sleeps so long. Zero: it
  // polls on, as the paper's.
  absl::Duration idle_sleep = absl::ZeroDuration();
  // Counts what each part costs, for which the clock is read some ten times a
  // turn.
  bool timed = false;

  // The TX queues that each port needs, and the buffers that ports, rings and
  // `capacity` bursts of each LPM core can hold.
  uint16_t tx_queues() const {
    return static_cast<uint16_t>(fused ? lpm.size() : 1);
  }
  size_t buffers(size_t capacity) const;
};

// What was counted since the start.
struct Counts {
  struct OfPort {
    uint64_t received = 0, sent = 0;
  };
  std::vector<OfPort> ports;
  // Packets dropped for each reason, those that ICMP told of included.
  std::array<uint64_t, kVerdicts> dropped = {};
  uint64_t icmp_errors = 0;
  // If timed: the packets that each part had, and its ticks of the time stamp
  // counter in the turns of a thread that had any. No tick is of two parts.
  struct OfPart {
    uint64_t packets = 0, ticks = 0;
  };
  std::array<OfPart, kParts> parts = {};
  std::map<NextHopId, uint64_t> next_hops;  // forwarded to each

  uint64_t received() const;
  uint64_t sent() const;
  // Packets received that were neither sent nor dropped.
  uint64_t held() const;
  std::string Text() const;
};

class Stage;

// Create, PollOnce and Stop are for one thread. counts() is thread-safe.
class Pipeline {
 public:
  // `objects` and `neighbors` must outlive it, and so must what lookups use.
  // Errors: INVALID_ARGUMENT for options that do not fit together;
  // RESOURCE_EXHAUSTED without the memory for a ring.
  static absl::StatusOr<std::unique_ptr<Pipeline>> Create(
      PipelineOptions options, const MakeLookups& lookups,
      const Objects& objects, const Neighbors& neighbors);
  // Frees what is held. REQUIRES: ports are not used by others.
  ~Pipeline();

  // Polls each stage once, on this thread, and returns how many packets moved.
  // For tests, instead of Start.
  size_t PollOnce();

  // Starts a thread for each core. Errors: those of starting one.
  absl::Status Start();
  // Takes no further packet, forwards what it has, for at most `drain`, and
  // ends the threads.
  void Stop(absl::Duration drain);

  Counts counts() const;

 private:
  explicit Pipeline(PipelineOptions options);
  absl::Status Build(const MakeLookups& lookups, const Objects& objects,
                     const Neighbors& neighbors);
  void Run(int core, const std::vector<Stage*>& stages);

  const PipelineOptions options_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<rte_ring*> rings_;
  std::map<int, std::vector<Stage*>> by_core_;
  std::vector<std::thread> threads_;
  std::atomic<bool> receiving_ = true;
  std::atomic<size_t> quiet_ = 0;  // RX stages that take no more
  std::atomic<bool> running_ = true;
};

}  // namespace planb::router

#endif  // PLANB_EXAMPLES_ROUTER_PIPELINE_H_
