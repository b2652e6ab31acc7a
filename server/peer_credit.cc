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

double& PeerCredit::Used(Account& a, SteadyInstant now) const {
  // Another thread may have looked at the clock later and come here first.
  const double seconds =
      std::max(0.0, std::chrono::duration<double>(now - a.at).count());
  a.at = std::max(a.at, now);
  return a.used = std::max(0.0, a.used - seconds * per_second_);
}

bool PeerCredit::Pay(size_t account, double cost, SteadyInstant now) {
  Account& a = accounts_[account % kAccounts];
  const std::lock_guard lock(a.mutex);
  double& used = Used(a, now);
  if (used + cost <= most_) {
    used += cost;
    return true;
  }
  used = std::max(used, most_);
  return false;
}

void PeerCredit::Charge(size_t account, double cost, SteadyInstant now) {
  Account& a = accounts_[account % kAccounts];
  const std::lock_guard lock(a.mutex);
  double& used = Used(a, now);
  used = std::min(used + cost, (1 + kMostOwed) * most_);
}

}  // namespace planb::server
