#include "server/peer_credit.h"

#include <algorithm>

namespace planb::server {

size_t PeerCredit::AccountOf(uint64_t key) {
  // Fibonacci hashing: keys that follow one another fall far apart.
  return static_cast<size_t>(key * 0x9e3779b97f4a7c15u >> 32) % kAccounts;
}

bool PeerCredit::Pay(size_t account, double cost, absl::Time now) {
  Account& a = accounts_[account % kAccounts];
  const std::lock_guard lock(a.mutex);
  // A clock that was set back earns nothing, and takes nothing.
  const double seconds = std::max(0.0, absl::ToDoubleSeconds(now - a.at));
  a.at = now;
  a.used = std::max(0.0, a.used - seconds * per_second_) + cost;
  if (a.used <= most_) return true;
  a.used = most_;
  return false;
}

}  // namespace planb::server
