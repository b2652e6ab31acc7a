// SPDX-License-Identifier: Apache-2.0

#include "examples/router/pipeline.h"

#include <pthread.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <list>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "examples/router/dpdk.h"

namespace planb::router {
namespace {

// A core sleeps after so many turns without a packet.
constexpr size_t kIdleTurns = 1000;

// What RX knows of a packet and LPM needs, in the buffer's own fields: the flow
// hash in hash.rss, the port's index in port, this in packet_type.
constexpr uint32_t kIsIpv6 = 1, kIsExpired = 2;

constexpr size_t kMaxRing = size_t{1} << 20;

constexpr double kNever = std::numeric_limits<double>::infinity();

double Seconds() {
  return static_cast<double>(rte_get_timer_cycles()) /
         static_cast<double>(rte_get_timer_hz());
}

uint8_t* Bytes(rte_mbuf* packet) { return rte_pktmbuf_mtod(packet, uint8_t*); }

// Packets that go to one of several rings or queues, by the burst.
struct Batch {
  std::array<rte_mbuf*, kMaxBurst> packets;
  size_t count = 0;
};

// Tells the parts of a thread's turns apart, if timed, by a look at the clock
// where one ends and the next begins.
class Laps {
 public:
  explicit Laps(bool timed) : timed_(timed) {}

  void Begin() {
    if (!timed_) return;
    turn_ = {};
    last_ = rte_rdtsc();
  }
  // All the time since the last call was of `part`, which had the packets.
  void Lap(Part part, size_t packets = 0) {
    if (!timed_) return;
    const uint64_t now = rte_rdtsc();
    Counts::OfPart& of = turn_[static_cast<size_t>(part)];
    of.ticks += now - std::exchange(last_, now);
    of.packets += packets;
  }
  // A turn that moved no packet does not count.
  void End(size_t moved) {
    if (!timed_ || moved == 0) return;
    for (size_t i = 0; i < kParts; ++i) {
      packets_[i].Add(turn_[i].packets);
      ticks_[i].Add(turn_[i].ticks);
    }
  }

  void AddTo(Counts& counts) const {
    for (size_t i = 0; i < kParts; ++i) {
      counts.parts[i].packets += packets_[i].value();
      counts.parts[i].ticks += ticks_[i].value();
    }
  }

 private:
  const bool timed_;
  uint64_t last_ = 0;
  std::array<Counts::OfPart, kParts> turn_ = {};
  std::array<Counter, kParts> packets_, ticks_;
};

}  // namespace

// The work of one thread at a time. Poll does what there is and returns how
// many packets that were; counters are read by any thread.
class Stage {
 public:
  explicit Stage(const PipelineOptions& options)
      : received_(options.ports.size()),
        sent_(options.ports.size()),
        laps_(options.timed) {}
  virtual ~Stage() = default;
  virtual size_t Poll() = 0;
  virtual void AddTo(Counts& counts) const {
    for (size_t i = 0; i < counts.ports.size(); ++i) {
      counts.ports[i].received += received_[i].value();
      counts.ports[i].sent += sent_[i].value();
    }
    for (size_t i = 0; i < kVerdicts; ++i) {
      counts.dropped[i] += dropped_[i].value();
    }
    counts.icmp_errors += icmp_errors_.value();
    laps_.AddTo(counts);
  }

 protected:
  void Drop(Verdict why, rte_mbuf* packet) {
    dropped_[static_cast<size_t>(why)].Add(1);
    rte_pktmbuf_free(packet);
  }
  void DropAll(Verdict why, rte_mbuf** packets, size_t count) {
    if (count == 0) return;
    dropped_[static_cast<size_t>(why)].Add(count);
    rte_pktmbuf_free_bulk(packets, static_cast<unsigned>(count));
  }
  // To a later stage.
  void Pass(Batch& batch, rte_ring* ring) {
    if (batch.count == 0) return;
    const size_t taken = rte_ring_sp_enqueue_burst(
        ring, reinterpret_cast<void**>(batch.packets.data()),
        static_cast<unsigned>(batch.count), nullptr);
    DropAll(Verdict::kQueueFull, &batch.packets[taken], batch.count - taken);
    batch.count = 0;
  }

  std::vector<Counter> received_, sent_;
  std::array<Counter, kVerdicts> dropped_;
  Counter icmp_errors_;
  Laps laps_;
};

namespace {

class RxStage : public Stage {
 public:
  RxStage(const PipelineOptions& options, std::vector<size_t> ports,
          std::vector<rte_ring*> to, const std::atomic<bool>& receiving,
          std::atomic<size_t>& quiet)
      : Stage(options),
        options_(options),
        mine_(std::move(ports)),
        to_(std::move(to)),
        batches_(to_.size()),
        receiving_(receiving),
        quiet_(quiet) {}

  size_t Poll() override {
    if (!receiving_.load(std::memory_order_relaxed)) {
      if (!std::exchange(said_quiet_, true)) ++quiet_;
      return 0;
    }
    laps_.Begin();
    size_t total = 0;
    for (const size_t port : mine_) {
      for (uint16_t queue = 0; queue < options_.ports[port].rx_queues;
           ++queue) {
        total += Poll(port, queue);
      }
    }
    laps_.Lap(Part::kReception, total);
    laps_.End(total);
    return total;
  }

 private:
  size_t Poll(size_t port, uint16_t queue) {
    rte_mbuf* packets[kMaxBurst];
    const size_t count =
        rte_eth_rx_burst(options_.ports[port].device, queue, packets,
                         static_cast<uint16_t>(options_.burst));
    for (size_t i = 0; i < count; ++i) rte_prefetch0(Bytes(packets[i]));
    for (size_t i = 0; i < count; ++i) Take(port, packets[i]);
    received_[port].Add(count);
    // Full batches would not hold another burst.
    if (count > 0) {
      for (size_t i = 0; i < to_.size(); ++i) Pass(batches_[i], to_[i]);
    }
    return count;
  }

  void Take(size_t port, rte_mbuf* frame) {
    Packet packet;
    const Verdict verdict =
        CheckPacket({Bytes(frame), frame->data_len}, frame->pkt_len,
                    options_.ports[port].mac, packet);
    if (verdict != Verdict::kForward && verdict != Verdict::kExpired) {
      Drop(verdict, frame);
      return;
    }
    if (frame->pkt_len > packet.bytes) {
      // The padding is the port's to add. In one segment it is cut by this.
      const auto padding = static_cast<uint16_t>(frame->pkt_len - packet.bytes);
      if (rte_pktmbuf_trim(frame, padding) != 0) {
        Drop(Verdict::kBadLength, frame);
        return;
      }
    }
    frame->port = static_cast<uint16_t>(port);
    frame->hash.rss = packet.flow_hash;
    frame->packet_type = (packet.family == Family::kIpv6 ? kIsIpv6 : 0) |
                         (verdict == Verdict::kExpired ? kIsExpired : 0);
    // The high bits: groups and other tables take the low ones.
    const size_t core = uint64_t{packet.flow_hash} * batches_.size() >> 32;
    Batch& batch = batches_[core];
    batch.packets[batch.count++] = frame;
  }

  const PipelineOptions& options_;
  const std::vector<size_t> mine_;
  const std::vector<rte_ring*> to_;
  std::vector<Batch> batches_;
  const std::atomic<bool>& receiving_;
  std::atomic<size_t>& quiet_;
  bool said_quiet_ = false;
};

// A stage that sends: a batch for each port, and its queue there.
class SendingStage : public Stage {
 protected:
  // Where it does not send, its time is that of `rest`.
  SendingStage(const PipelineOptions& options, uint16_t queue, Part rest)
      : Stage(options),
        options_(options),
        rest_(rest),
        queue_(queue),
        batches_(options.ports.size()) {}

  // To packet->port, an index.
  void Send(rte_mbuf* packet) {
    Batch& batch = batches_[packet->port];
    batch.packets[batch.count++] = packet;
    if (batch.count == options_.burst) SendBatch(packet->port);
  }
  void SendAll() {
    for (size_t port = 0; port < batches_.size(); ++port) {
      if (batches_[port].count > 0) SendBatch(port);
    }
  }

  const PipelineOptions& options_;

 private:
  void SendBatch(size_t port) {
    laps_.Lap(rest_);
    Batch& batch = batches_[port];
    const size_t sent = rte_eth_tx_burst(options_.ports[port].device, queue_,
                                         batch.packets.data(),
                                         static_cast<uint16_t>(batch.count));
    sent_[port].Add(sent);
    DropAll(Verdict::kPortFull, &batch.packets[sent], batch.count - sent);
    laps_.Lap(Part::kSending, batch.count);
    batch.count = 0;
  }

  const Part rest_;
  const uint16_t queue_;
  std::vector<Batch> batches_;
};

class TxStage : public SendingStage {
 public:
  TxStage(const PipelineOptions& options, std::vector<rte_ring*> from)
      : SendingStage(options, 0, Part::kSending), from_(std::move(from)) {}

  size_t Poll() override {
    laps_.Begin();
    size_t total = 0;
    for (rte_ring* const ring : from_) {
      rte_mbuf* packets[kMaxBurst];
      const size_t count = rte_ring_sc_dequeue_burst(
          ring, reinterpret_cast<void**>(packets),
          static_cast<unsigned>(options_.burst), nullptr);
      for (size_t i = 0; i < count; ++i) Send(packets[i]);
      total += count;
    }
    SendAll();
    laps_.Lap(Part::kSending);
    laps_.End(total);
    return total;
  }

 private:
  const std::vector<rte_ring*> from_;
};

class LpmStage : public SendingStage {
 public:
  // `to` is empty if it sends itself, to `queue` of each port.
  LpmStage(const PipelineOptions& options, uint16_t queue,
           std::vector<rte_ring*> from, std::vector<rte_ring*> to,
           std::unique_ptr<Lookups> lookups, const Objects& objects,
           const Neighbors& neighbors)
      : SendingStage(options, queue, Part::kLpm),
        from_(std::move(from)),
        to_(std::move(to)),
        batches_(to_.size()),
        lookups_(std::move(lookups)),
        adjacencies_(options.ports, objects, neighbors),
        neighbors_(neighbors),
        icmp_(options.icmp_rate, options.icmp_burst),
        bursts_(lookups_->capacity()) {
    for (Burst& burst : bursts_) free_.push_back(&burst);
    for (const Port& port : options.ports) {
      for (const Address& address : port.addresses) {
        own_.insert(address);
        const auto last = static_cast<uint8_t>(address.ToPacked().back());
        own_bits_ |= uint64_t{1} << last % 64;
      }
    }
  }

  ~LpmStage() override {
    for (const auto& [key, held] : held_) {
      for (const auto& [packet, counter] : held.packets) {
        rte_pktmbuf_free(packet);
      }
    }
    // Those that have an answer meanwhile as well.
    for (Burst& burst : bursts_) {
      if (std::find(free_.begin(), free_.end(), &burst) != free_.end())
        continue;
      for (size_t i = 0; i < burst.size(); ++i)
        rte_pktmbuf_free(burst.packets[i]);
    }
  }

  size_t Poll() override {
    laps_.Begin();
    size_t total = 0;
    if (!free_.empty()) {
      Burst& burst = *free_.back();
      if (const size_t count = Fill(burst); count > 0) {
        total += count;
        free_.pop_back();
        laps_.Lap(Part::kLpm, count);
        if (const size_t asked = burst.size(); asked > 0) {
          lookups_->Start(burst);
          laps_.Lap(Part::kLookup, asked);
        } else {
          free_.push_back(&burst);  // all of them had expired
        }
      }
    }
    while (Burst* const burst = Finished()) {
      total += burst->size();
      Forward(*burst);
      free_.push_back(burst);
      laps_.Lap(Part::kLpm);
    }
    if (!held_.empty()) CheckHeld();
    if (to_.empty()) {
      SendAll();
    } else {
      for (size_t i = 0; i < to_.size(); ++i) Pass(batches_[i], to_[i]);
    }
    laps_.Lap(Part::kLpm);
    laps_.End(total);
    return total;
  }

  void AddTo(Counts& counts) const override {
    Stage::AddTo(counts);
    adjacencies_.Count(counts.next_hops);
  }

 private:
  // Neighbours that packets wait for, the first of them in front.
  using Unfound = std::list<Neighbors::Key>;
  struct Held {
    double until = 0;
    // Where it stands among those of the next hop, which its counter names.
    const Counter* next_hop = nullptr;
    Unfound::iterator place = {};
    std::vector<std::pair<rte_mbuf*, Counter*>> packets = {};
  };
  using AllHeld = absl::flat_hash_map<Neighbors::Key, Held>;

  // Takes a burst from the rings, in turns.
  size_t Fill(Burst& burst) {
    rte_mbuf* packets[kMaxBurst];
    size_t count = 0;
    for (size_t i = 0; i < from_.size() && count < options_.burst; ++i) {
      next_ring_ = (next_ring_ + 1) % from_.size();
      count += rte_ring_sc_dequeue_burst(
          from_[next_ring_], reinterpret_cast<void**>(packets + count),
          static_cast<unsigned>(options_.burst - count), nullptr);
    }
    burst.v6 = burst.v4 = 0;
    burst.answered = false;
    if (waits_) Prefetch(packets, count);
    Gather(packets, count, kIsIpv6, burst);
    if (burst.size() < count) Gather(packets, count, 0, burst);
    for (size_t i = 0; burst.size() < count && i < count; ++i) {
      if ((packets[i]->packet_type & kIsExpired) == 0) continue;
      // One for this router may have one hop only, as BGP's to a neighbour.
      Answer(IsOwn(packets[i]) ? Verdict::kLocal : Verdict::kExpired,
             packets[i]);
    }
    return count;
  }

  // Packets that waited are in no near cache.
  static void Prefetch(rte_mbuf* const* packets, size_t count) {
    for (size_t i = 0; i < count; ++i) rte_prefetch0(Bytes(packets[i]));
  }

  static void Gather(rte_mbuf** packets, size_t count, uint32_t type,
                     Burst& burst) {
    for (size_t i = 0; i < count; ++i) {
      if (packets[i]->packet_type != type) continue;
      if (type == kIsIpv6) {
        std::memcpy(&burst.addresses_v6[16 * burst.v6++],
                    Destination(Bytes(packets[i]), Family::kIpv6), 16);
      } else {
        std::memcpy(&burst.addresses_v4[4 * burst.v4++],
                    Destination(Bytes(packets[i]), Family::kIpv4), 4);
      }
      burst.flow_hashes[burst.size() - 1] = packets[i]->hash.rss;
      burst.packets[burst.size() - 1] = packets[i];
    }
  }

  Burst* Finished() {
    Burst* const burst = lookups_->Finished();
    laps_.Lap(Part::kLookup);
    return burst;
  }

  static Family FamilyOf(const rte_mbuf* packet) {
    return (packet->packet_type & kIsIpv6) != 0 ? Family::kIpv6 : Family::kIpv4;
  }
  static absl::string_view PackedTo(rte_mbuf* packet) {
    const Family family = FamilyOf(packet);
    return {reinterpret_cast<const char*>(Destination(Bytes(packet), family)),
            static_cast<size_t>(AddressBytes(family))};
  }
  static Address To(rte_mbuf* packet) {
    return *Address::FromPacked(PackedTo(packet));
  }
  bool MayBeOwn(uint8_t last) const {
    return (own_bits_ >> last % 64 & 1) != 0;
  }
  bool IsOwn(rte_mbuf* packet) const { return own_.contains(To(packet)); }

  void Forward(Burst& burst) {
    if (!burst.answered) {
      DropAll(Verdict::kNoAnswer, burst.packets.data(), burst.size());
      return;
    }
    adjacencies_.Refresh();
    if (waits_) {
      Prefetch(burst.packets.data(), burst.size());
      for (size_t i = 0; i < burst.size(); ++i) {
        adjacencies_.Prefetch(burst.next_hops[i]);
      }
    }
    for (size_t i = 0; i < burst.size(); ++i) {
      const Verdict verdict = ForwardOne(burst, i);
      if (verdict == Verdict::kForward) continue;
      Answer(verdict, burst.packets[i]);
    }
  }

  Verdict ForwardOne(const Burst& burst, size_t i) {
    rte_mbuf* const packet = burst.packets[i];
    const NextHopId next_hop = burst.next_hops[i];
    // Of the burst: those bytes are near, while a packet's may not be.
    if (MayBeOwn(i < burst.v6 ? burst.addresses_v6[16 * i + 15]
                              : burst.addresses_v4[4 * (i - burst.v6) + 3]) &&
        IsOwn(packet)) {
      return Verdict::kLocal;
    }
    if (next_hop == kNoRoute) return Verdict::kNoRoute;
    if (next_hop == kUndecided) return Verdict::kNoAnswer;
    Adjacency& adjacency = adjacencies_.Of(next_hop);
    if (adjacency.state == Adjacency::State::kUnknown) {
      return Verdict::kUnknownObject;
    }
    if (packet->pkt_len > kEthernetBytes + options_.ports[adjacency.port].mtu) {
      too_big_mtu_ = options_.ports[adjacency.port].mtu;
      return Verdict::kTooBig;
    }
    if (adjacency.state == Adjacency::State::kReady) {
      // Those that waited leave before the first.
      if (!std::exchange(adjacency.used, true)) {
        Release({adjacency.port, adjacency.gateway}, adjacency.mac);
      }
      Leave(packet, adjacency.port, adjacency.mac, *adjacency.packets);
      return Verdict::kForward;
    }
    const Neighbors::Key key(adjacency.port,
                             adjacency.state == Adjacency::State::kOnLink
                                 ? To(packet)
                                 : adjacency.gateway);
    const auto mac = neighbors_.Find(key.first, key.second);
    if (!mac.has_value()) return Hold(key, packet, *adjacency.packets);
    Release(key, *mac);
    Leave(packet, adjacency.port, *mac, *adjacency.packets);
    return Verdict::kForward;
  }

  void Leave(rte_mbuf* packet, size_t port, const Mac& mac, Counter& counter) {
    Rewrite(Bytes(packet), FamilyOf(packet), options_.ports[port].mac, mac);
    counter.Add(1);
    packet->port = static_cast<uint16_t>(port);
    Emit(packet);
  }

  // Keeps a packet until its neighbour is found. kForward: it is taken care of.
  Verdict Hold(const Neighbors::Key& key, rte_mbuf* packet, Counter& counter) {
    if (options_.hold_neighbor == 0) return Verdict::kUnresolved;
    const auto found = held_.find(key);
    if ((found != held_.end() &&
         found->second.packets.size() == options_.hold_neighbor) ||
        (held_total_ >= options_.hold_total && !MakeRoom(key, counter))) {
      Drop(Verdict::kUnresolved, packet);  // it may yet be found: no error
      return Verdict::kForward;
    }
    const auto [at, first] = held_.try_emplace(key);
    Held& held = at->second;
    if (first) {
      held.until = Seconds() + options_.hold_seconds;
      held.next_hop = &counter;
      Unfound& unfound = unfound_[&counter];
      held.place = unfound.insert(unfound.end(), key);
      next_end_ = std::min(next_end_, held.until);
      neighbors_.Want(key);
    }
    held.packets.emplace_back(packet, &counter);
    ++held_total_;
    return Verdict::kForward;
  }

  // Drops what waits for the first neighbour of the next hop that lacks the
  // most of them, if that is more than the one of `counter` will lack. So
  // trying all addresses of a link takes no room from other next hops, and does
  // not have more neighbours asked for than can be waited for. False: there is
  // none.
  bool MakeRoom(const Neighbors::Key& key, const Counter& counter) {
    const auto most = std::max_element(
        unfound_.begin(), unfound_.end(), [](const auto& a, const auto& b) {
          return a.second.size() < b.second.size();
        });
    const auto own = unfound_.find(&counter);
    const size_t lacks = own == unfound_.end() ? 0 : own->second.size();
    if (most == unfound_.end() || most->second.size() < lacks + 2 ||
        most->second.front() == key) {
      return false;
    }
    const auto held = held_.find(most->second.front());
    for (const auto& [packet, sent] : held->second.packets) {
      Drop(Verdict::kUnresolved, packet);
    }
    Forget(held);
    return true;
  }

  void Release(const Neighbors::Key& key, const Mac& mac) {
    const auto held = held_.find(key);
    if (held != held_.end()) Release(held, mac);
  }
  void Release(AllHeld::iterator held, const Mac& mac) {
    for (const auto& [packet, counter] : held->second.packets) {
      Leave(packet, held->first.first, mac, *counter);
    }
    Forget(held);
  }
  void Forget(AllHeld::iterator held) {
    held_total_ -= held->second.packets.size();
    const auto unfound = unfound_.find(held->second.next_hop);
    unfound->second.erase(held->second.place);
    if (unfound->second.empty()) unfound_.erase(unfound);
    held_.erase(held);
  }

  void CheckHeld() {
    const double now = Seconds();
    const uint64_t version = neighbors_.version();
    const bool changed = std::exchange(held_version_, version) != version;
    if (!changed && now <= next_end_) return;
    next_end_ = kNever;
    for (auto next = held_.begin(); next != held_.end();) {
      const auto held = next++;
      const auto& [port, address] = held->first;
      const auto mac = changed ? neighbors_.Find(port, address) : std::nullopt;
      if (mac.has_value()) {
        Release(held, *mac);
      } else if (now > held->second.until) {
        for (const auto& [packet, counter] : held->second.packets) {
          Answer(Verdict::kUnresolved, packet);
        }
        Forget(held);
      } else {
        next_end_ = std::min(next_end_, held->second.until);
      }
    }
  }

  // Drops a packet, or turns it into the ICMP error that tells its source.
  void Answer(Verdict why, rte_mbuf* packet) {
    uint8_t reply[kMaxIcmpFrame];
    const size_t size = MakeAnswer(why, packet, reply);
    if (size == 0) {
      Drop(why, packet);
      return;
    }
    dropped_[static_cast<size_t>(why)].Add(1);
    icmp_errors_.Add(1);
    std::memcpy(Bytes(packet), reply, size);
    packet->data_len = static_cast<uint16_t>(size);
    packet->pkt_len = packet->data_len;
    Emit(packet);
  }

  size_t MakeAnswer(Verdict why, rte_mbuf* packet, uint8_t* reply) {
    if (why != Verdict::kExpired && why != Verdict::kNoRoute &&
        why != Verdict::kUnresolved && why != Verdict::kTooBig) {
      return 0;
    }
    const Family family = FamilyOf(packet);
    const Port& port = options_.ports[packet->port];
    const auto source =
        std::find_if(port.addresses.begin(), port.addresses.end(),
                     [&](const Address& a) { return a.family() == family; });
    if (source == port.addresses.end() || packet->nb_segs > 1 ||
        packet->buf_len < packet->data_off + kMaxIcmpFrame ||
        !icmp_.Allow(Seconds())) {
      return 0;
    }
    return MakeIcmpError(why, {Bytes(packet), packet->data_len}, *source,
                         port.mac, too_big_mtu_, reply);
  }

  void Emit(rte_mbuf* packet) {
    if (to_.empty()) {
      Send(packet);
      return;
    }
    const size_t core = packet->port % to_.size();
    Batch& batch = batches_[core];
    batch.packets[batch.count++] = packet;
    if (batch.count == kMaxBurst) Pass(batch, to_[core]);
  }

  const std::vector<rte_ring*> from_;
  const std::vector<rte_ring*> to_;
  size_t next_ring_ = 0;
  AllHeld held_;
  absl::flat_hash_map<const Counter*, Unfound> unfound_;  // none empty
  size_t held_total_ = 0;
  // Of neighbours, when those of held packets were looked for.
  uint64_t held_version_ = 0;
  double next_end_ = kNever;  // of the wait of any
  std::vector<Batch> batches_;
  const std::unique_ptr<Lookups> lookups_;
  Adjacencies adjacencies_;
  const Neighbors& neighbors_;
  RateLimit icmp_;
  uint16_t too_big_mtu_ = 0;
  std::vector<Burst> bursts_;
  const bool waits_ = bursts_.size() > 1;  // packets, for their answers
  std::vector<Burst*> free_;
  // The router's own addresses. Most others are told from them by a bit.
  absl::flat_hash_set<Address> own_;
  uint64_t own_bits_ = 0;
};

}  // namespace

size_t PipelineOptions::buffers(size_t capacity) const {
  constexpr size_t kOfPort = 2 * 512 + 2 * kMaxBurst;
  constexpr size_t kOfThread = 512 + 2 * kMaxBurst;  // a cache of the pool
  const size_t rings = lpm.size() * (rx.size() + (fused ? 0 : tx.size()));
  return ports.size() * kOfPort + rings * ring +
         lpm.size() * (capacity * kMaxBurst + hold_total) +
         (rx.size() + lpm.size() + tx.size() + 1) * kOfThread;
}

uint64_t Counts::received() const {
  uint64_t sum = 0;
  for (const OfPort& port : ports) sum += port.received;
  return sum;
}

uint64_t Counts::sent() const {
  uint64_t sum = 0;
  for (const OfPort& port : ports) sum += port.sent;
  return sum;
}

uint64_t Counts::held() const {
  uint64_t gone = sent();
  for (const uint64_t count : dropped) gone += count;
  return received() + icmp_errors - gone;
}

std::string Counts::Text() const {
  std::string text;
  for (size_t i = 0; i < ports.size(); ++i) {
    absl::StrAppend(&text, "port ", i, " received ", ports[i].received,
                    " sent ", ports[i].sent, "\n");
  }
  for (size_t i = 0; i < kVerdicts; ++i) {
    if (dropped[i] == 0) continue;
    absl::StrAppend(&text, "dropped ", VerdictName(static_cast<Verdict>(i)),
                    " ", dropped[i], "\n");
  }
  absl::StrAppend(&text, "icmp_errors ", icmp_errors, "\n");
  for (const auto& [id, packets] : next_hops) {
    absl::StrAppend(&text, "next_hop ", id, " packets ", packets, "\n");
  }
  return text;
}

Pipeline::Pipeline(PipelineOptions options) : options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Create(
    PipelineOptions options, const MakeLookups& lookups, const Objects& objects,
    const Neighbors& neighbors) {
  if (options.ports.empty() || options.rx.empty() || options.lpm.empty() ||
      (options.tx.empty() && !options.fused)) {
    return absl::InvalidArgumentError("each stage needs a core, and one port");
  }
  if (options.burst == 0 || options.burst > kMaxBurst) {
    return absl::InvalidArgumentError(
        absl::StrCat("a burst has 1 to ", kMaxBurst, " packets"));
  }
  // DPDK takes a ring of 0 for one of 2^32 packets.
  if (options.ring < 2 || options.ring > kMaxRing ||
      (options.ring & (options.ring - 1)) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a ring has 2 to ", kMaxRing, " packets, a power of two"));
  }
  if (!(options.icmp_rate >= 0) || !(options.icmp_burst >= 0)) {
    return absl::InvalidArgumentError("a rate of ICMP errors is 0 or more");
  }
  std::unique_ptr<Pipeline> pipeline(new Pipeline(std::move(options)));
  absl::Status built = pipeline->Build(lookups, objects, neighbors);
  if (!built.ok()) return built;
  return pipeline;
}

absl::Status Pipeline::Build(const MakeLookups& lookups, const Objects& objects,
                             const Neighbors& neighbors) {
  static std::atomic<int> rings = 0;  // names must differ
  const auto ring = [&] {
    rings_.push_back(rte_ring_create(absl::StrCat("stage", ++rings).c_str(),
                                     static_cast<unsigned>(options_.ring),
                                     SOCKET_ID_ANY,
                                     RING_F_SP_ENQ | RING_F_SC_DEQ));
    return rings_.back();
  };
  const size_t lpm_count = options_.lpm.size();
  const size_t tx_count = options_.fused ? 0 : options_.tx.size();
  std::vector<std::vector<rte_ring*>> to_lpm(lpm_count), to_tx(tx_count);
  const auto add = [&](int core, std::unique_ptr<Stage> stage) {
    by_core_[core].push_back(stage.get());
    stages_.push_back(std::move(stage));
  };
  for (size_t i = 0; i < options_.rx.size(); ++i) {
    std::vector<size_t> ports;
    for (size_t p = i; p < options_.ports.size(); p += options_.rx.size()) {
      ports.push_back(p);
    }
    std::vector<rte_ring*> to;
    for (size_t l = 0; l < lpm_count; ++l) {
      to.push_back(ring());
      to_lpm[l].push_back(to.back());
    }
    add(options_.rx[i],
        std::make_unique<RxStage>(options_, std::move(ports), std::move(to),
                                  receiving_, quiet_));
  }
  for (size_t l = 0; l < lpm_count; ++l) {
    std::vector<rte_ring*> to;
    for (size_t t = 0; t < tx_count; ++t) {
      to.push_back(ring());
      to_tx[t].push_back(to.back());
    }
    add(options_.lpm[l], std::make_unique<LpmStage>(
                             options_, static_cast<uint16_t>(l), to_lpm[l],
                             std::move(to), lookups(), objects, neighbors));
  }
  for (size_t t = 0; t < tx_count; ++t) {
    add(options_.tx[t], std::make_unique<TxStage>(options_, to_tx[t]));
  }
  if (std::find(rings_.begin(), rings_.end(), nullptr) != rings_.end()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("DPDK: no ring of ", options_.ring, " packets"));
  }
  return absl::OkStatus();
}

Pipeline::~Pipeline() {
  Stop(absl::ZeroDuration());
  stages_.clear();
  for (rte_ring* const ring : rings_) {
    if (ring != nullptr) FreeRing(ring);
  }
}

size_t Pipeline::PollOnce() {
  size_t total = 0;
  for (const auto& stage : stages_) total += stage->Poll();
  return total;
}

absl::Status Pipeline::Start() {
  try {
    for (const auto& [core, stages] : by_core_) {
      threads_.emplace_back(
          [this, core = core, &stages = stages] { Run(core, stages); });
    }
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no thread can be started: ", error.what()));
  }
  return absl::OkStatus();
}

void Pipeline::Run(int core, const std::vector<Stage*>& stages) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(static_cast<size_t>(core), &cpus);
  pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
  // Gives the thread a cache of the pool. Without, it is slower.
  rte_thread_register();
  size_t idle = 0;
  while (running_.load(std::memory_order_relaxed)) {
    size_t moved = 0;
    for (Stage* const stage : stages) moved += stage->Poll();
    idle = moved > 0 ? 0 : idle + 1;
    if (idle > kIdleTurns && options_.idle_sleep > absl::ZeroDuration()) {
      absl::SleepFor(options_.idle_sleep);
    }
  }
  rte_thread_unregister();
}

void Pipeline::Stop(absl::Duration drain) {
  receiving_ = false;
  const absl::Time deadline = MonotonicNow() + drain;
  // A burst that RX is taking is counted once it says that it takes no more.
  while (!threads_.empty() && MonotonicNow() < deadline &&
         (quiet_ < options_.rx.size() || counts().held() > 0)) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  running_ = false;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

Counts Pipeline::counts() const {
  Counts counts;
  counts.ports.resize(options_.ports.size());
  for (const auto& stage : stages_) stage->AddTo(counts);
  return counts;
}

}  // namespace planb::router
