// A reply answers the IPv6 addresses of its batch first: two counters find each
// call's place in it.

#include "client/coalescer.h"

#include <algorithm>

namespace planb::client {
namespace {

CoalescerOptions Sane(CoalescerOptions options) {
  options.max_batch = std::max<size_t>(options.max_batch, 1);
  options.max_in_flight = std::max<size_t>(options.max_in_flight, 1);
  options.max_calls = std::max<size_t>(options.max_calls, 1);
  return options;
}

// Appends the address in network byte order.
void Pack(const Address& address, std::string& to) {
  char octets[16];
  absl::uint128 bits = address.bits();
  for (char& octet : octets) {
    octet = static_cast<char>(absl::Uint128High64(bits) >> 56);
    bits <<= 8;
  }
  to.append(octets, AddressBytes(address.family()));
}

bool IsV6(const Address& address) { return address.family() == Family::kIpv6; }

}  // namespace

Coalescer::Coalescer(const CoalescerOptions& options)
    : options_(Sane(options)) {}

uint64_t Coalescer::Add(const Address& address, Time now, Time deadline,
                        Done done) {
  const uint64_t id = ++last_call_;
  ++calls_;
  if (deadline != kNever) deadlines_.emplace(deadline, id);
  waiting_.emplace_hint(waiting_.end(), id,
                        Call{id, address, now, deadline, std::move(done)});
  return id;
}

bool Coalescer::MayDepart() const {
  return !waiting_.empty() && under_way_.size() < options_.max_in_flight;
}

Coalescer::Time Coalescer::Due() const {
  const Time first = waiting_.begin()->second.arrived;
  const bool now = under_way_.empty() || waiting_.size() >= options_.max_batch;
  return now ? first : After(first, options_.max_delay);
}

bool Coalescer::TakeDeparture(Time now, Departure& departure) {
  if (!MayDepart() || Due() > now) return false;
  departure.id = ++last_departure_;
  departure.addresses_v6.clear();
  departure.addresses_v4.clear();
  std::vector<Call>& calls = under_way_[departure.id];
  calls.reserve(std::min(waiting_.size(), options_.max_batch));
  auto next = waiting_.begin();
  while (next != waiting_.end() && calls.size() < options_.max_batch) {
    Call& call = next->second;
    Pack(call.address,
         IsV6(call.address) ? departure.addresses_v6 : departure.addresses_v4);
    calls.push_back(std::move(call));
    ++next;
  }
  waiting_.erase(waiting_.begin(), next);
  return true;
}

std::vector<Coalescer::Arrival> Coalescer::Land(uint64_t departure) {
  std::vector<Arrival> arrivals;
  const auto found = under_way_.find(departure);
  if (found == under_way_.end()) return arrivals;
  std::vector<Call>& calls = found->second;
  arrivals.reserve(calls.size());
  size_t next_v6 = 0;
  auto next_v4 = static_cast<size_t>(
      std::count_if(calls.begin(), calls.end(),
                    [](const Call& call) { return IsV6(call.address); }));
  for (Call& call : calls) {
    const size_t at = IsV6(call.address) ? next_v6++ : next_v4++;
    if (call.done == nullptr) continue;
    if (call.deadline != kNever) deadlines_.erase({call.deadline, call.id});
    arrivals.push_back({std::move(call.done), at});
  }
  calls_ -= calls.size();
  under_way_.erase(found);
  return arrivals;
}

Coalescer::Done Coalescer::TakeCall(uint64_t id) {
  if (const auto found = waiting_.find(id); found != waiting_.end()) {
    Done done = std::move(found->second.done);
    deadlines_.erase({found->second.deadline, id});
    waiting_.erase(found);
    --calls_;
    return done;
  }
  for (auto& [departure, calls] : under_way_) {
    const auto found = std::lower_bound(
        calls.begin(), calls.end(), id,
        [](const Call& call, uint64_t wanted) { return call.id < wanted; });
    if (found == calls.end() || found->id != id) continue;
    deadlines_.erase({found->deadline, id});
    return std::exchange(found->done, nullptr);
  }
  return nullptr;
}

std::vector<Coalescer::Done> Coalescer::TakeExpired(Time now) {
  std::vector<Done> expired;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    expired.push_back(TakeCall(deadlines_.begin()->second));
  }
  return expired;
}

std::vector<Coalescer::Done> Coalescer::TakeAll() {
  std::vector<Done> all;
  for (auto& [departure, calls] : under_way_) {
    for (Call& call : calls) {
      if (call.done != nullptr) {
        all.push_back(std::exchange(call.done, nullptr));
      }
    }
  }
  for (auto& [id, call] : waiting_) all.push_back(std::move(call.done));
  calls_ -= waiting_.size();
  waiting_.clear();
  deadlines_.clear();
  return all;
}

Coalescer::Time Coalescer::NextEvent() const {
  Time next = deadlines_.empty() ? kNever : deadlines_.begin()->first;
  if (MayDepart()) next = std::min(next, Due());
  return next;
}

}  // namespace planb::client
