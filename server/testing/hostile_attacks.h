// SPDX-License-Identifier: Apache-2.0

// What a hostile client may try, each way a function that tries it again and
// again: the tests see whether the server lives through it, benchmarks/serving
// what others then still get done.

#ifndef PLANB_SERVER_TESTING_HOSTILE_ATTACKS_H_
#define PLANB_SERVER_TESTING_HOSTILE_ATTACKS_H_

#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace planb::server {

// One attacker. Steps are what an attack is counted in: frames, calls or
// connections, as it says. Stop() and steps() from any thread, the rest from
// the attacker's.
class Attacker {
 public:
  // At most `rate` steps a second; 0: as many as it can.
  Attacker(std::string target, uint64_t seed, double rate = 0)
      : target_(std::move(target)), rate_(rate), random_(seed) {}

  const std::string& target() const { return target_; }

  // Counts `steps`, and sleeps where they come too soon. False: it is over.
  bool Go(uint64_t steps = 1);

  // In [0, limit).
  uint64_t Random(uint64_t limit) { return random_() % limit; }
  std::string RandomBytes(size_t count);

  void Stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }
  uint64_t steps() const { return steps_; }

 private:
  const std::string target_;
  const double rate_;
  std::mt19937_64 random_;
  absl::Time next_ = absl::InfinitePast();
  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> steps_{0};
};

// Does what it does on a connection, or some, until the server ends that or the
// attacker is stopped; takes at least one step. To be called again and again.
struct Attack {
  const char* name;
  const char* step;
  void (*run)(Attacker&);
  // Where the attack is stopped. kServer: other clients of the server are
  // served meanwhile. kEdge: the server lives through it, but may have no time
  // for others and take memory; the edge proxy (deploy/edge) keeps it away.
  enum { kServer, kEdge } stopped_at = kServer;
};

// Malformed frames and messages, headers in excess, floods.
absl::Span<const Attack> AllAttacks();

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_HOSTILE_ATTACKS_H_
