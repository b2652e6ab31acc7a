// SPDX-License-Identifier: Apache-2.0

// Has the attacks of a hostile client. The tests check that the server survives
// them, and benchmarks/serving measures what other clients get done meanwhile.

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

// The state of one attacker. An attack is counted in steps: frames, calls or
// connections. Stop(), stopped() and steps() are thread-safe; all else is for
// the attacker's thread.
class Attacker {
 public:
  // At most `rate` steps a second; 0: no limit.
  Attacker(std::string target, uint64_t seed, double rate = 0)
      : target_(std::move(target)), rate_(rate), random_(seed) {}

  const std::string& target() const { return target_; }

  // Counts `steps`, and sleeps if they come too soon. False after Stop().
  bool Go(uint64_t steps = 1);

  // Returns a random number in [0, limit).
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

struct Attack {
  const char* name;
  const char* step;  // what a step is
  // Opens one or more connections and attacks until the server closes them or
  // the attacker is stopped. Takes at least one step. Called repeatedly.
  void (*run)(Attacker&);
  // Where the attack is stopped. kServer: the server serves other clients
  // meanwhile. kEdge: the server survives, but other clients may have to wait
  // and its memory may grow; the edge proxy (deploy/edge) stops the attack.
  enum { kServer, kEdge } stopped_at = kServer;
};

// Returns the attacks: malformed frames and messages, headers in excess,
// floods.
absl::Span<const Attack> AllAttacks();

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_HOSTILE_ATTACKS_H_
