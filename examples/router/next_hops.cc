// SPDX-License-Identifier: Apache-2.0

#include "examples/router/next_hops.h"

namespace planb::router {
namespace {

// Asked for again with the next packet.
constexpr size_t kMostWanted = 1000;

}  // namespace

std::optional<Mac> Neighbors::Find(size_t port, const Address& address) const {
  const auto map = map_.Read();
  const auto found = map->find(Key(port, address));
  return found == map->end() ? std::nullopt : std::optional(found->second);
}

void Neighbors::Set(size_t port, const Address& address,
                    std::optional<Mac> mac) {
  const MutexLock lock(mutex_);
  if (Find(port, address) == mac) return;
  auto map = std::make_unique<Map>(*map_.Read());
  if (mac.has_value()) {
    map->insert_or_assign(Key(port, address), *mac);
  } else {
    map->erase(Key(port, address));
  }
  map_.Publish(std::move(map));
  ++version_;
}

void Neighbors::Want(const Key& key) const {
  const MutexLock lock(mutex_);
  if (wanted_.size() < kMostWanted) wanted_.push_back(key);
}

std::vector<Neighbors::Key> Neighbors::TakeWanted() {
  const MutexLock lock(mutex_);
  return std::exchange(wanted_, {});
}

void Adjacencies::Resolve(NextHopId id, Adjacency& entry) {
  entry = {.id = id, .version = version_};
  const std::optional<NextHop> object = objects_.Find(id);
  if (!object.has_value()) return;
  for (entry.port = 0; entry.port < ports_.size(); ++entry.port) {
    if (ports_[entry.port].interface == object->interface) break;
  }
  if (entry.port == ports_.size()) return;
  {
    const MutexLock lock(mutex_);
    entry.packets = &counters_[id];
  }
  if (!object->gateway.has_value()) {
    entry.state = Adjacency::State::kOnLink;
    return;
  }
  entry.gateway = *object->gateway;
  const auto mac = neighbors_.Find(entry.port, entry.gateway);
  entry.state = mac.has_value() ? Adjacency::State::kReady
                                : Adjacency::State::kUnresolved;
  if (mac.has_value()) entry.mac = *mac;
}

void Adjacencies::Count(std::map<NextHopId, uint64_t>& packets) const {
  const MutexLock lock(mutex_);
  for (const auto& [id, counter] : counters_) packets[id] += counter.value();
}

}  // namespace planb::router
