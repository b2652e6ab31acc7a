// SPDX-License-Identifier: Apache-2.0

// A disk that fails when told to: a VFS of SQLite around the system's own.

#ifndef PLANB_SERVER_TESTING_FAULTY_DISK_H_
#define PLANB_SERVER_TESTING_FAULTY_DISK_H_

#include <cstdint>

namespace planb::server {

// Of the whole process; thread-safe. Operations are what changes a file:
// writes, truncations, syncs.
class FaultyDisk {
 public:
  enum class Fault {
    kFull,         // writes say that there is no room, having written a half
    kBroken,       // all operations say that they failed, and did nothing
    kUnconfirmed,  // they are done, and say that they failed
  };

  // The name of the VFS, registered by the first call.
  static const char* Vfs();

  // Lets `good` operations pass and fails the next `bad` ones.
  static void Fail(Fault fault, int64_t good, int64_t bad);
  // Ends all faults; how many operations failed since Fail().
  static int64_t Heal();
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_FAULTY_DISK_H_
