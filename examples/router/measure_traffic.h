// SPDX-License-Identifier: Apache-2.0

// What measure.cc sends, and what it expects of it: packets that go around,
// each to the next destination of a trace, whose answers are known also while
// routes change.

#ifndef PLANB_EXAMPLES_ROUTER_MEASURE_TRAFFIC_H_
#define PLANB_EXAMPLES_ROUTER_MEASURE_TRAFFIC_H_

#include <endian.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>
#include <rte_ring.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "benchmarks/engine/inputs.h"
#include "benchmarks/engine/machine.h"
#include "client/table_client.h"
#include "examples/router/fib.h"
#include "examples/router/next_hops.h"
#include "examples/router/testing/frames.h"
#include "lpm/synthetic/reference_table.h"

namespace planb::router {

// Of a trace: the bits of a flow label.
inline constexpr uint32_t kMostAddresses = 1 << 20;

// Each next hop is a neighbour of its own at the one port, with its id in its
// addresses.
class Around : public Objects {
 public:
  static Address Gateway(NextHopId id) {
    return Address::V6(absl::MakeUint128(0x20010db800000000, id));
  }
  static Mac MacOf(NextHopId id) {
    Mac mac = {2, 1};
    std::memcpy(&mac[2], &id, sizeof(id));
    return mac;
  }
  std::optional<NextHop> Find(NextHopId id) const override {
    return NextHop{.id = id, .gateway = Gateway(id), .interface = "around"};
  }
  uint64_t version() const override { return 0; }
};

// The right answers, and changes of routes from whose number they follow. Each
// batch changes the places of one slot, in turns. A place is a route without
// others in it, which gets other next hops, or a /64 in one, which comes and
// goes. Constant after construction but for the counts of batches, which are
// atomic.
class Answers {
 public:
  static constexpr uint64_t kSlots = 10;
  static constexpr NextHopId kHops = 64;

  // REQUIRES: `routes` sorted. `batch` may be 0: nothing changes.
  Answers(absl::Span<const Route> routes, const Trace& trace, size_t batch)
      : batch_(batch) {
    const ReferenceTable reference(routes);
    absl::flat_hash_map<Prefix, size_t> place_in;  // of routes with none inside
    for (size_t i = 0; batch > 0 && i < routes.size(); ++i) {
      const Prefix& prefix = routes[i].prefix;
      if (prefix.length() < 64 &&
          (i + 1 == routes.size() || !prefix.Covers(routes[i + 1].prefix))) {
        place_in[prefix] = kNoPlace;
      }
    }
    for (size_t i = 0; i < trace.size(); ++i) {
      const Address address = trace.address(i);
      const auto route = reference.Lookup(address);
      of_.push_back({route.has_value() ? route->next_hop : kNoRoute});
      const auto found = place_in.find(route.value_or(Route()).prefix);
      if (found == place_in.end()) continue;
      size_t& place = found->second;
      if (place == kNoPlace && places_.size() < batch * kSlots) {
        place = places_.size();
        places_.push_back(place % 2 == 0 ? route->prefix
                                         : Prefix::Truncate(address, 64));
      }
      if (place != kNoPlace && places_[place].Contains(address)) {
        of_.back().place = static_cast<uint32_t>(place);
      }
    }
  }

  bool has_all_places() const { return places_.size() == batch_ * kSlots; }

  v1::UpdateRoutesRequest NextBatch() {
    v1::UpdateRoutesRequest request;
    request.set_ack(v1::ACK_VISIBLE);
    const uint64_t slot = sent % kSlots, times = 1 + sent / kSlots;
    for (size_t place = slot * batch_; place < (slot + 1) * batch_; ++place) {
      *request.add_updates() =
          client::ToUpdate({places_[place], After(times, place, kNoRoute)});
    }
    ++sent;
    return request;
  }

  // Whether the `i`-th address of the trace may have this answer after `least`
  // batches, after `most` or between.
  bool IsRight(size_t i, NextHopId hop, uint64_t least, uint64_t most) const {
    const auto [next_hop, place] = of_[i];
    if (place == kNoPlace) return hop == next_hop;
    const uint64_t before = kSlots - 1 - place / batch_;
    for (uint64_t times = (least + before) / kSlots;
         times <= (most + before) / kSlots; ++times) {
      if (After(times, place, next_hop) == hop) return true;
    }
    return false;
  }

  std::atomic<uint64_t> sent = 0, visible = 0;  // batches

 private:
  static constexpr uint32_t kNoPlace = UINT32_MAX;
  struct Of {
    NextHopId next_hop;  // before any change
    uint32_t place = kNoPlace;
  };
  // The next hop of a place after so many changes of it.
  static NextHopId After(uint64_t times, uint64_t place, NextHopId otherwise) {
    if (times == 0 || (place % 2 != 0 && times % 2 == 0)) return otherwise;
    return static_cast<NextHopId>(1 + (place + times) % kHops);
  }

  const size_t batch_;
  std::vector<Prefix> places_;
  std::vector<Of> of_;
};

// Checks each packet that comes back, and gives it the next destination: those
// that a port of a ring received, or, on a wire, those at its far end. For the
// thread that receives, and others while none does.
class Traffic {
 public:
  Traffic(const Trace& trace, const Answers& answers)
      : trace_(trace), answers_(answers) {}

  // Begins a turn with new packets: as many as are taken, or one each
  // `interval` of ticks. A lookup that begins now answers from `visible`
  // batches at the least.
  absl::Status Begin(rte_mempool* pool, size_t packets, double interval,
                     std::function<uint64_t()> visible) {
    interval_ = interval;
    visible_ = std::move(visible);
    due_ = static_cast<double>(Ticks());
    given = checked = wrong = ticks = 0;
    ending = false;
    microseconds.clear();
    // No next header: what is behind the IP header is this program's.
    const Frame frame = MakeFrame({.protocol = 59, .bytes = 6});  // 64 with CRC
    while (waiting_.size() < packets) {
      waiting_.push_back(rte_pktmbuf_alloc(pool));
      if (waiting_.back() == nullptr) return absl::InternalError("no buffer");
      std::memcpy(rte_pktmbuf_append(waiting_.back(),
                                     static_cast<uint16_t>(frame.size())),
                  frame.data(), frame.size());
    }
    return absl::OkStatus();
  }
  // After a turn, with what it sent, or null on a wire.
  void End(rte_ring* sent) {
    for (void* packet = nullptr;
         sent != nullptr && rte_ring_dequeue(sent, &packet) == 0;) {
      Check(static_cast<rte_mbuf*>(packet));
      rte_pktmbuf_free(static_cast<rte_mbuf*>(packet));
    }
    for (rte_mbuf* const packet : waiting_) rte_pktmbuf_free(packet);
    waiting_.clear();
  }

  // To be called with what the port received, also if that is nothing.
  static uint16_t Take(uint16_t, uint16_t, rte_mbuf** packets, uint16_t count,
                       uint16_t room, void* user) {
    auto* const traffic = static_cast<Traffic*>(user);
    const uint64_t begin = traffic->timed ? Ticks() : 0;
    if (traffic->far.has_value()) {
      traffic->TakeFar(*traffic->far, room);
    } else {
      count = traffic->Take(packets, count, room);
    }
    if (traffic->timed && count > 0) traffic->ticks += Ticks() - begin;
    return count;
  }

  std::optional<uint16_t> far;  // on a wire: the device at its far end
  bool timed = false;
  uint64_t ticks = 0;  // if timed: that this took with packets for the router
  uint64_t given = 0, checked = 0, wrong = 0;
  std::atomic<uint64_t> around = 0;  // given and not yet checked
  std::atomic<bool> ending = false;  // gives none
  std::vector<double> microseconds;  // that one of 16 packets took
  std::atomic<bool> sampling = false;

 private:
  // The flow label of a packet is its place in the trace; behind the header is
  // when it came: the time, or how many batches were visible.
  static constexpr size_t kLabel = kEthernetBytes, kCame = kEthernetBytes + 40;

  void TakeFar(uint16_t device, uint16_t room) {
    rte_mbuf* packets[kMaxBurst];
    uint16_t count = rte_eth_rx_burst(device, 0, packets, room);
    count = Take(packets, count, room);
    const uint16_t sent = rte_eth_tx_burst(device, 0, packets, count);
    given -= count - sent;
    waiting_.insert(waiting_.end(), packets + sent, packets + count);
  }

  uint16_t Take(rte_mbuf** packets, uint16_t count, uint16_t room) {
    // As a NIC leaves packets in the cache.
    for (uint16_t i = 0; i < count; ++i) {
      rte_prefetch0(rte_pktmbuf_mtod(packets[i], const uint8_t*));
    }
    for (uint16_t i = 0; i < count; ++i) Check(packets[i]);
    const bool paced = interval_ > 0;
    const auto now = static_cast<double>(Ticks());
    const uint64_t came = paced ? 0 : visible_();
    if (paced || ending) {
      waiting_.insert(waiting_.end(), packets, packets + count);
      count = 0;
    }
    for (uint16_t i = 0; i < count; ++i) Renew(packets[i], came);
    for (; !ending && count < room && !waiting_.empty() &&
           (!paced || due_ <= now);
         due_ += interval_) {
      packets[count] = waiting_.front();
      waiting_.pop_front();
      Renew(packets[count++], paced ? static_cast<uint64_t>(due_) : came);
    }
    given += count;
    around.store(given - checked, std::memory_order_relaxed);
    return count;
  }

  void Check(rte_mbuf* packet) {
    const auto* const frame = rte_pktmbuf_mtod(packet, const uint8_t*);
    uint32_t label = 0, hop = 0;
    uint64_t came = 0;
    std::memcpy(&label, frame + kLabel, sizeof(label));
    std::memcpy(&hop, frame + 2, sizeof(hop));
    std::memcpy(&came, frame + kCame, 6);
    ++checked;
    if (!answers_.IsRight(be32toh(label) & (kMostAddresses - 1), hop,
                          interval_ > 0 ? 0 : came, answers_.sent)) {
      ++wrong;
    }
    if (interval_ > 0 && sampling && checked % 16 == 0) {
      const uint64_t took = (Ticks() - came) << 16 >> 16;
      microseconds.push_back(static_cast<double>(took) / TicksPerNanosecond() /
                             1e3);
    }
  }

  void Renew(rte_mbuf* packet, uint64_t came) {
    auto* const frame = rte_pktmbuf_mtod(packet, uint8_t*);
    const uint32_t label = htobe32(0x60000000 | static_cast<uint32_t>(next_));
    std::memcpy(frame, kStation.data(), kStation.size());
    std::memcpy(frame + kLabel, &label, sizeof(label));
    frame[kEthernetBytes + 7] = 64;
    std::memcpy(frame + kEthernetBytes + 24, trace_.at(next_), 16);
    std::memcpy(frame + kCame, &came, 6);
    if (++next_ == trace_.size()) next_ = 0;
  }

  const Trace& trace_;
  const Answers& answers_;
  std::deque<rte_mbuf*> waiting_;
  std::function<uint64_t()> visible_;
  double interval_ = 0, due_ = 0;
  size_t next_ = 0;
};

}  // namespace planb::router

#endif  // PLANB_EXAMPLES_ROUTER_MEASURE_TRAFFIC_H_
