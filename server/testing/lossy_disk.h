// SPDX-License-Identifier: Apache-2.0

// A disk that a server process writes to and that loses power: the bytes that
// were not synced are then gone. It also fails when a test tells it to.

#ifndef PLANB_SERVER_TESTING_LOSSY_DISK_H_
#define PLANB_SERVER_TESTING_LOSSY_DISK_H_

#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace planb::server {

// The memory that a test shares with lost_writes.cc. Zeros: no fault.
struct LossyDiskFaults {
  std::atomic<int> error;         // what operations fail with; 0: they do not
  std::atomic<uint32_t> percent;  // of the operations
  std::atomic<uint32_t> count;    // operations so far while `error` was set
  std::atomic<uint32_t> failed;
};

// The disk of all files in one directory, for the processes that are started
// with its environment. Their syncs copy what was written to a second file
// beside the directory; a loss of power goes back to these copies. The test
// needs //server/testing:liblost_writes.so in its data. Fail() and Heal() are
// thread-safe, all else is not.
class LossyDisk {
 public:
  // `store` is a file of that directory, which exists.
  explicit LossyDisk(const std::string& store);
  LossyDisk(const LossyDisk&) = delete;
  LossyDisk& operator=(const LossyDisk&) = delete;
  ~LossyDisk();

  // The environment for ServerProcess.
  std::vector<std::string> environment() const;

  // Undoes what was not synced, except for a random part of it: a disk may have
  // written any. Returns the number of sectors that are lost. The machine has
  // another boot id afterwards. REQUIRES: the processes are dead.
  uint64_t LosePower(std::mt19937_64& random) {
    return LosePower(random, random() % 5 * 25);
  }
  uint64_t LosePower(std::mt19937_64& random, uint64_t kept_percent);

  // Later writes, truncations and syncs fail with `error` at this rate. With
  // ENOSPC only writes do that make a file longer. After a failed sync the
  // disk forgets that it had anything to sync, as Linux does.
  void Fail(int error, uint32_t percent);
  // Ends the faults. Returns the number of operations that failed since Fail().
  uint32_t Heal();

 private:
  void NewBootId() const;

  const std::string directory_;
  const std::string copies_;  // the directory of the copies
  LossyDiskFaults* faults_ = nullptr;
  int boots_ = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_LOSSY_DISK_H_
