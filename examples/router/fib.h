// SPDX-License-Identifier: Apache-2.0

// What an LPM core asks: bursts of destinations, as they came from its rings.

#ifndef PLANB_EXAMPLES_ROUTER_FIB_H_
#define PLANB_EXAMPLES_ROUTER_FIB_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "client/next_hop_directory.h"
#include "examples/router/next_hops.h"
#include "lpm/prefix.h"

struct rte_mbuf;

namespace planb::router {

inline constexpr size_t kMaxBurst = 64;

// Packets and what is asked about them: first those of IPv6, then of IPv4.
struct Burst {
  size_t v6 = 0;
  size_t v4 = 0;
  size_t size() const { return v6 + v4; }

  alignas(64) std::array<uint8_t, 16 * kMaxBurst> addresses_v6;
  alignas(64) std::array<uint8_t, 4 * kMaxBurst> addresses_v4;
  std::array<uint32_t, kMaxBurst> flow_hashes;
  std::array<rte_mbuf*, kMaxBurst> packets;
  // The answers, members in the place of groups. Without `answered` there are
  // none.
  alignas(64) std::array<NextHopId, kMaxBurst> next_hops;
  bool answered = false;
};

// The lookups of one LPM core. Thread-compatible.
class Lookups {
 public:
  virtual ~Lookups() = default;
  // How many bursts may wait for their answer.
  virtual size_t capacity() const { return 1; }
  // REQUIRES: fewer than capacity() wait. `burst` is left alone until Finished
  // returns it.
  virtual void Start(Burst& burst) = 0;
  // The oldest burst, if it needs to wait no longer; or null.
  virtual Burst* Finished() = 0;
};

// Makes the lookups of each LPM core.
using MakeLookups = std::function<std::unique_ptr<Lookups>()>;

// A table whose lookups are function calls. `ask(burst)` sets the next hops and
// returns whether there are any.
template <typename Ask>
class DirectLookups : public Lookups {
 public:
  explicit DirectLookups(Ask ask) : ask_(std::move(ask)) {}
  void Start(Burst& burst) override {
    burst.answered = ask_(burst);
    burst_ = &burst;
  }
  Burst* Finished() override { return std::exchange(burst_, nullptr); }

 private:
  Ask ask_;
  Burst* burst_ = nullptr;
};

template <typename Ask>
MakeLookups Direct(Ask ask) {
  return [ask] { return std::make_unique<DirectLookups<Ask>>(ask); };
}

// By a table inside this process, which must outlive the lookups: as
// client::LocalRoutes, or with these functions of its.
template <typename Routes>
MakeLookups LocalLookups(const Routes& routes) {
  return Direct([&routes](Burst& burst) {
    NextHopId* const hops = burst.next_hops.data();
    const uint32_t* const hashes = burst.flow_hashes.data();
    if (burst.v6 > 0) {
      routes.Lookup(Family::kIpv6, burst.addresses_v6.data(), burst.v6, hashes,
                    hops);
    }
    if (burst.v4 > 0) {
      routes.Lookup(Family::kIpv4, burst.addresses_v4.data(), burst.v4,
                    hashes + burst.v6, hops + burst.v6);
    }
    return true;
  });
}

// The floor: no lookup at all.
inline MakeLookups ConstantLookups(NextHopId next_hop) {
  return Direct([next_hop](Burst& burst) {
    burst.next_hops.fill(next_hop);
    return true;
  });
}

inline std::optional<NextHop> FindIn(const client::NextHopObjects& objects,
                                     NextHopId id) {
  const NextHop* const found = objects.FindNextHop(id);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

// Of such a table: an object is there before a lookup can answer with it.
template <typename Routes>
class LocalObjects : public Objects {
 public:
  explicit LocalObjects(const Routes& routes) : routes_(routes) {}
  std::optional<NextHop> Find(NextHopId id) const override {
    return FindIn(*routes_.objects(), id);
  }
  uint64_t version() const override { return routes_.objects_version(); }

 private:
  const Routes& routes_;
};

// Of a server's table, which changes here soon after it does there.
class FollowedObjects : public Objects {
 public:
  explicit FollowedObjects(
      std::unique_ptr<const client::NextHopDirectory> directory)
      : directory_(std::move(directory)) {}
  std::optional<NextHop> Find(NextHopId id) const override {
    return FindIn(*directory_->Read().objects, id);
  }
  uint64_t version() const override {
    return directory_->Read().objects_version;
  }

 private:
  const std::unique_ptr<const client::NextHopDirectory> directory_;
};

}  // namespace planb::router

#endif  // PLANB_EXAMPLES_ROUTER_FIB_H_
