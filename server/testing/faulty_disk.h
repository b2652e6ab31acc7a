// SPDX-License-Identifier: Apache-2.0

// A disk that fails when a test tells it to. It is a VFS of SQLite around the
// system's.

#ifndef PLANB_SERVER_TESTING_FAULTY_DISK_H_
#define PLANB_SERVER_TESTING_FAULTY_DISK_H_

#include <cstdint>

namespace planb::server {

// One disk for the whole process. Counts the operations that change a file:
// writes, truncations, syncs. Thread-safe.
class FaultyDisk {
 public:
  enum class Fault {
    kFull,         // writes write one half, then fail for want of room
    kBroken,       // operations fail and do nothing
    kUnconfirmed,  // operations are done, but report a failure
  };

  // The name of the VFS, registered by the first call.
  static const char* Vfs();

  // Lets `good` operations succeed and fails the next `bad` ones.
  static void Fail(Fault fault, int64_t good, int64_t bad);
  // Ends all faults. Returns how many operations failed since Fail().
  static int64_t Heal();

  // Later syncs do not return before Answer().
  static void Hang();
  static void Answer();
  // Waits until a sync hangs.
  static void AwaitHang();
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_FAULTY_DISK_H_
