#include "server/peer_credit.h"

#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace planb::server {

size_t PeerCredit::AccountOf(uint64_t key) {
  static const uint64_t seed =
      uint64_t{std::random_device()()} << 32 | std::random_device()();
  return XXH3_64bits_withSeed(&key, sizeof(key), seed) % kAccounts;
}

bool PeerCredit::Pay(size_t account, double cost, SteadyInstant now) {
  Account& a = accounts_[account % kAccounts];
  const std::lock_guard lock(a.mutex);
  // Another thread may have looked at the clock later and come here first.
  const double seconds =
      std::max(0.0, std::chrono::duration<double>(now - a.at).count());
  a.at = std::max(a.at, now);
  a.used = std::max(0.0, a.used - seconds * per_second_) + cost;
  if (a.used <= most_) return true;
  a.used = most_;
  return false;
}

}  // namespace planb::server
