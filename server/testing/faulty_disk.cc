// SPDX-License-Identifier: Apache-2.0

#include "server/testing/faulty_disk.h"

#include <sqlite3.h>

#include <limits>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace planb::server {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

struct Plan {
  absl::Mutex mutex;
  FaultyDisk::Fault fault ABSL_GUARDED_BY(mutex) = FaultyDisk::Fault::kBroken;
  int64_t good ABSL_GUARDED_BY(mutex) = kNever;
  int64_t bad ABSL_GUARDED_BY(mutex) = 0;
  int64_t failed ABSL_GUARDED_BY(mutex) = 0;
  bool hangs ABSL_GUARDED_BY(mutex) = false;
  int hanging ABSL_GUARDED_BY(mutex) = 0;
};

Plan& ThePlan() {
  static Plan& plan = *new Plan;
  return plan;
}

// Whether this operation fails. Sets `fault`.
bool Fails(bool is_write, FaultyDisk::Fault& fault) {
  Plan& plan = ThePlan();
  absl::MutexLock lock(&plan.mutex);
  fault = plan.fault;
  if (plan.good > 0) {
    --plan.good;
    return false;
  }
  // A full disk still truncates and syncs.
  if (plan.fault == FaultyDisk::Fault::kFull && !is_write) return false;
  if (plan.bad == 0) return false;
  --plan.bad;
  ++plan.failed;
  return true;
}

// SQLite's way to derive a class: the system's file follows in memory.
struct File {
  sqlite3_file base;
};

sqlite3_file* Real(sqlite3_file* file) {
  return reinterpret_cast<sqlite3_file*>(reinterpret_cast<File*>(file) + 1);
}

template <auto kMethod, typename... Arguments>
int Pass(sqlite3_file* file, Arguments... arguments) {
  return (Real(file)->pMethods->*kMethod)(Real(file), arguments...);
}

int Write(sqlite3_file* file, const void* bytes, int size,
          sqlite3_int64 offset) {
  FaultyDisk::Fault fault;
  const auto write = Real(file)->pMethods->xWrite;
  if (!Fails(/*is_write=*/true, fault)) {
    return write(Real(file), bytes, size, offset);
  }
  switch (fault) {
    case FaultyDisk::Fault::kFull:
      write(Real(file), bytes, size / 2, offset);
      return SQLITE_FULL;
    case FaultyDisk::Fault::kUnconfirmed:
      write(Real(file), bytes, size, offset);
      break;
    case FaultyDisk::Fault::kBroken:
      break;
  }
  return SQLITE_IOERR_WRITE;
}

int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  FaultyDisk::Fault fault;
  const auto truncate = Real(file)->pMethods->xTruncate;
  if (!Fails(/*is_write=*/false, fault)) return truncate(Real(file), size);
  if (fault == FaultyDisk::Fault::kUnconfirmed) truncate(Real(file), size);
  return SQLITE_IOERR_TRUNCATE;
}

int Sync(sqlite3_file* file, int flags) {
  {
    Plan& plan = ThePlan();
    absl::MutexLock lock(&plan.mutex);
    ++plan.hanging;
    plan.mutex.Await(absl::Condition(
        +[](bool* hangs) { return !*hangs; }, &plan.hangs));
    --plan.hanging;
  }
  FaultyDisk::Fault fault;
  if (Fails(/*is_write=*/false, fault)) return SQLITE_IOERR_FSYNC;
  return Real(file)->pMethods->xSync(Real(file), flags);
}

void ShmBarrier(sqlite3_file* file) {
  Real(file)->pMethods->xShmBarrier(Real(file));
}

using Methods = sqlite3_io_methods;
constexpr Methods kMethods = {
    .iVersion = 2,  // memory-mapped reads are not wrapped
    .xClose = Pass<&Methods::xClose>,
    .xRead = Pass<&Methods::xRead>,
    .xWrite = Write,
    .xTruncate = Truncate,
    .xSync = Sync,
    .xFileSize = Pass<&Methods::xFileSize>,
    .xLock = Pass<&Methods::xLock>,
    .xUnlock = Pass<&Methods::xUnlock>,
    .xCheckReservedLock = Pass<&Methods::xCheckReservedLock>,
    .xFileControl = Pass<&Methods::xFileControl>,
    .xSectorSize = Pass<&Methods::xSectorSize>,
    .xDeviceCharacteristics = Pass<&Methods::xDeviceCharacteristics>,
    .xShmMap = Pass<&Methods::xShmMap>,
    .xShmLock = Pass<&Methods::xShmLock>,
    .xShmBarrier = ShmBarrier,
    .xShmUnmap = Pass<&Methods::xShmUnmap>,
};

int OpenFile(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags,
             int* out_flags) {
  auto* system = static_cast<sqlite3_vfs*>(vfs->pAppData);
  file->pMethods = nullptr;
  const int code = system->xOpen(system, name, Real(file), flags, out_flags);
  // SQLite closes a file with methods even after an error.
  if (Real(file)->pMethods != nullptr) file->pMethods = &kMethods;
  return code;
}

}  // namespace

const char* FaultyDisk::Vfs() {
  static const char* const name = [] {
    sqlite3_vfs* const system = sqlite3_vfs_find(nullptr);
    // The other functions are the system's, which do not use pAppData.
    sqlite3_vfs& vfs = *new sqlite3_vfs(*system);
    vfs.szOsFile += static_cast<int>(sizeof(File));
    vfs.pNext = nullptr;
    vfs.zName = "faulty";
    vfs.pAppData = system;
    vfs.xOpen = OpenFile;
    sqlite3_vfs_register(&vfs, /*makeDflt=*/0);
    return vfs.zName;
  }();
  return name;
}

void FaultyDisk::Fail(Fault fault, int64_t good, int64_t bad) {
  Plan& plan = ThePlan();
  absl::MutexLock lock(&plan.mutex);
  plan.fault = fault;
  plan.good = good;
  plan.bad = bad;
  plan.failed = 0;
}

int64_t FaultyDisk::Heal() {
  Plan& plan = ThePlan();
  absl::MutexLock lock(&plan.mutex);
  plan.good = kNever;
  plan.bad = 0;
  return plan.failed;
}

void FaultyDisk::Hang() {
  Plan& plan = ThePlan();
  absl::MutexLock lock(&plan.mutex);
  plan.hangs = true;
}

void FaultyDisk::Answer() {
  Plan& plan = ThePlan();
  absl::MutexLock lock(&plan.mutex);
  plan.hangs = false;
}

void FaultyDisk::AwaitHang() {
  Plan& plan = ThePlan();
  absl::MutexLock lock(&plan.mutex);
  plan.mutex.Await(absl::Condition(
      +[](int* hanging) { return *hanging > 0; }, &plan.hanging));
}

}  // namespace planb::server
