// What a client may ask of the server beyond lookups: connections, resets,
// pings. Everybody has a credit, which grows with time; who has used it up is
// sent away. Kept by peer and not by connection, so that to connect anew gives
// no more of it.

#ifndef PLANB_SERVER_PEER_CREDIT_H_
#define PLANB_SERVER_PEER_CREDIT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "base/monotonic_time.h"

namespace planb::server {

// A fixed number of accounts: peers whose keys fall on the same one share it.
// Thread-safe.
class PeerCredit {
 public:
  static constexpr size_t kAccounts = 1024;

  // A credit of `most`, and `per_second` back each second.
  PeerCredit(double most, double per_second)
      : most_(most), per_second_(per_second) {}

  // Of a peer's key: what it is known by. Differs from process to process, so
  // that nobody can tell with whom he shares one.
  static size_t AccountOf(uint64_t key);

  // Takes `cost` from the account. False if there was not so much; then what
  // there was is gone. O(1).
  bool Pay(size_t account, double cost, SteadyInstant now);

  // Takes `cost` for what cannot be refused any more. What there was not is
  // owed, up to kMostOwed times the credit: until it has come back, Pay fails.
  void Charge(size_t account, double cost, SteadyInstant now);

  static constexpr double kMostOwed = 4;

 private:
  struct Account {
    std::mutex mutex;
    double used ABSL_GUARDED_BY(mutex) = 0;
    SteadyInstant at ABSL_GUARDED_BY(mutex);
  };

  // What is used up, as of `now`.
  double& Used(Account& account, SteadyInstant now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(account.mutex);

  const double most_;
  const double per_second_;
  std::array<Account, kAccounts> accounts_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_PEER_CREDIT_H_
