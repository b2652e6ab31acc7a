// SPDX-License-Identifier: Apache-2.0

// Preloaded into a server, it keeps a copy of each file in $PLANB_LOSSY_DISK as
// of the file's last sync, for class LossyDisk. The server itself is the one
// that is shipped.
//
// Creations and deletions of files count as durable at once: SQLite syncs the
// directory where that matters. The -shm file is no durable state, and is the
// only one that is mapped. Calls that the store does not make and that would
// escape the copies abort the process.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bitset>
#include <mutex>

#include "server/testing/lossy_disk.h"

namespace {

using planb::server::LossyDiskFaults;

constexpr int64_t kBlock = 4096;
constexpr size_t kBlocks = 1 << 18;  // 1 GiB
constexpr int kFiles = 64;
constexpr int kHandles = 1 << 16;
// As long as a disk takes for a sync, so that kills come between a write and
// its sync.
constexpr useconds_t kSyncMicros = 200;
constexpr char kBootId[] = "/proc/sys/kernel/random/boot_id";

// A file of the disk. Static, since a library that is loaded first must not
// allocate.
struct File {
  char name[64];
  int copy = -1;  // -1: unused, or deleted
  // Blocks that may differ from the copy.
  std::bitset<kBlocks> unsynced;
};

std::mutex mutex;  // of `files`
File files[kFiles];
std::atomic<File*> by_handle[kHandles];
char directory[PATH_MAX];  // ends with a slash; "": no disk
size_t directory_size = 0;
char copies[PATH_MAX];  // ends with a slash
LossyDiskFaults* faults = nullptr;

[[noreturn]] void Die(const char* what) {
  (void)!write(STDERR_FILENO, what, strlen(what));
  abort();
}

template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int RealOpen(const char* path, int flags, mode_t mode) {
  static auto* const real = Real<int(const char*, int, ...)>("open64");
  return real(path, flags, mode);
}

ssize_t RealWrite(int handle, const void* bytes, size_t size, off_t offset) {
  static auto* const real =
      Real<ssize_t(int, const void*, size_t, off_t)>("pwrite64");
  return real(handle, bytes, size, offset);
}

int RealTruncate(int handle, off_t size) {
  static auto* const real = Real<int(int, off_t)>("ftruncate64");
  return real(handle, size);
}

int64_t SizeOf(int handle) {
  struct stat status;
  return fstat(handle, &status) == 0 ? status.st_size : 0;
}

__attribute__((constructor)) void Begin() {
  const char* const path = getenv("PLANB_LOSSY_DISK");
  if (path == nullptr) return;
  snprintf(copies, sizeof(copies), "%s.copies/faults", path);
  const int file = RealOpen(copies, O_RDWR | O_CLOEXEC, 0);
  if (file < 0) Die("no LossyDisk of $PLANB_LOSSY_DISK\n");
  void* const page = mmap(nullptr, sizeof(LossyDiskFaults),
                          PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) Die("cannot map the faults of a LossyDisk\n");
  close(file);
  faults = static_cast<LossyDiskFaults*>(page);
  snprintf(copies, sizeof(copies), "%s.copies/", path);
  directory_size =
      static_cast<size_t>(snprintf(directory, sizeof(directory), "%s/", path));
}

// The name of a path on the disk within its directory; null for other files.
const char* NameOf(const char* path) {
  if (directory_size == 0 || strncmp(path, directory, directory_size) != 0) {
    return nullptr;
  }
  const char* const name = path + directory_size;
  const size_t size = strlen(name);
  const bool index = size > 4 && strcmp(name + size - 4, "-shm") == 0;
  return index ? nullptr : name;
}

File* FileOf(int handle) {
  return handle < 0 || handle >= kHandles ? nullptr : by_handle[handle].load();
}

// Notes that these bytes may differ from the copy. REQUIRES: locked.
void Touch(File& file, int64_t begin, int64_t end) {
  if (end > kBlock * static_cast<int64_t>(kBlocks)) Die("too large a file\n");
  for (int64_t block = begin / kBlock; block * kBlock < end; ++block) {
    file.unsynced.set(static_cast<size_t>(block));
  }
}

// Makes the copy equal to the file. REQUIRES: locked.
void Copy(File& file, int handle) {
  static char bytes[kBlock];
  for (size_t i = file.unsynced._Find_first(); i < kBlocks;
       i = file.unsynced._Find_next(i)) {
    const off_t offset = static_cast<off_t>(i) * kBlock;
    const ssize_t size = pread(handle, bytes, sizeof(bytes), offset);
    if (size > 0 && RealWrite(file.copy, bytes, static_cast<size_t>(size),
                              offset) != size) {
      Die("cannot write a copy of a LossyDisk\n");
    }
  }
  file.unsynced.reset();
  if (RealTruncate(file.copy, SizeOf(handle)) != 0) Die("cannot truncate\n");
}

// Follows a file that was opened to be written.
void Follow(int handle) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", handle);
  const ssize_t size = readlink(link, path, sizeof(path) - 1);
  if (size < 0) return;
  path[size] = '\0';
  const char* const name = NameOf(path);
  if (name == nullptr) return;
  if (handle >= kHandles || strlen(name) >= sizeof(File::name)) {
    Die("too many files or too long a name for a LossyDisk\n");
  }
  const std::lock_guard lock(mutex);
  File* free = nullptr;
  for (File& file : files) {
    if (file.copy < 0) {
      free = &file;
    } else if (strcmp(file.name, name) == 0) {
      by_handle[handle].store(&file);
      return;
    }
  }
  if (free == nullptr) Die("too many files of a LossyDisk\n");
  strcpy(free->name, name);
  char copy[2 * PATH_MAX];
  snprintf(copy, sizeof(copy), "%s%s", copies, name);
  free->copy = RealOpen(copy, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool fresh = free->copy >= 0;
  if (!fresh) free->copy = RealOpen(copy, O_RDWR | O_CLOEXEC, 0);
  if (free->copy < 0) Die("cannot open a copy of a LossyDisk\n");
  free->unsynced.reset();
  // What an earlier process left unsynced becomes durable with the next sync.
  Touch(*free, 0, std::max(SizeOf(handle), SizeOf(free->copy)));
  if (fresh) Copy(*free, handle);
  by_handle[handle].store(free);
}

int Open(const char* path, int flags, mode_t mode) {
  const int handle = RealOpen(path, flags, mode);
  if (handle >= 0 && directory_size > 0 && (flags & O_ACCMODE) != O_RDONLY) {
    Follow(handle);
  }
  return handle;
}

// Whether an operation fails. Sets errno.
bool Fails(bool lengthens) {
  const int error = faults->error.load();
  if (error == 0 || (error == ENOSPC && !lengthens)) return false;
  // Multiplied, so that the kinds of operations do not fail in turn.
  const uint32_t turn = faults->count.fetch_add(1) * 2654435761U >> 16;
  if (turn % 100 >= faults->percent.load()) return false;
  ++faults->failed;
  errno = error;
  return true;
}

ssize_t Write(int handle, const void* bytes, size_t size, off_t offset) {
  File* const file = FileOf(handle);
  if (file == nullptr) return RealWrite(handle, bytes, size, offset);
  const int64_t end = offset + static_cast<int64_t>(size);
  const bool fails = Fails(end > SizeOf(handle));
  const int error = errno;
  // A full disk has room for some of the bytes.
  if (fails) size = error == ENOSPC ? size / 2 : 0;
  const ssize_t written = RealWrite(handle, bytes, size, offset);
  {
    // After the write: a sync before has not seen it.
    const std::lock_guard lock(mutex);
    if (file->copy >= 0) Touch(*file, offset, end);
  }
  if (!fails) return written;
  errno = error;
  return -1;
}

int Truncate(int handle, off_t size) {
  File* const file = FileOf(handle);
  if (file == nullptr) return RealTruncate(handle, size);
  if (Fails(/*lengthens=*/false)) return -1;
  const int64_t before = SizeOf(handle);
  const int status = RealTruncate(handle, size);
  const std::lock_guard lock(mutex);
  if (file->copy >= 0) {
    Touch(*file, std::min<int64_t>(before, size),
          std::max<int64_t>(before, size));
  }
  return status;
}

// Leaves the real disk out: only the end of this machine would notice.
int Sync(int handle, const char* name) {
  File* const file = FileOf(handle);
  if (file == nullptr) return Real<int(int)>(name)(handle);
  usleep(kSyncMicros);
  const bool fails = Fails(/*lengthens=*/false);
  const int error = errno;
  const std::lock_guard lock(mutex);
  if (file->copy < 0) return 0;
  if (!fails) {
    Copy(*file, handle);
    return 0;
  }
  file->unsynced.reset();
  errno = error;
  return -1;
}

FILE* OpenStream(const char* path, const char* mode) {
  static auto* const real = Real<FILE*(const char*, const char*)>("fopen64");
  char boot_id[PATH_MAX + 16];
  if (directory_size > 0 && strcmp(path, kBootId) == 0) {
    snprintf(boot_id, sizeof(boot_id), "%sboot_id", copies);
    path = boot_id;
  }
  return real(path, mode);
}

mode_t ModeOf(int flags, va_list list) {
  return (flags & (O_CREAT | O_TMPFILE)) == 0 ? 0 : va_arg(list, mode_t);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = ModeOf(flags, list);
  va_end(list);
  return Open(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = ModeOf(flags, list);
  va_end(list);
  return Open(path, flags, mode);
}

FILE* fopen(const char* path, const char* mode) {
  return OpenStream(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  return OpenStream(path, mode);
}

int close(int handle) {
  static auto* const real = Real<int(int)>("close");
  if (handle >= 0 && handle < kHandles) by_handle[handle].store(nullptr);
  return real(handle);
}

ssize_t pwrite(int handle, const void* bytes, size_t size, off_t offset) {
  return Write(handle, bytes, size, offset);
}
ssize_t pwrite64(int handle, const void* bytes, size_t size, off_t offset) {
  return Write(handle, bytes, size, offset);
}

ssize_t write(int handle, const void* bytes, size_t size) {
  static auto* const real = Real<ssize_t(int, const void*, size_t)>("write");
  if (FileOf(handle) != nullptr) Die("write() to a LossyDisk\n");
  return real(handle, bytes, size);
}

int ftruncate(int handle, off_t size) noexcept {
  return Truncate(handle, size);
}
int ftruncate64(int handle, off_t size) noexcept {
  return Truncate(handle, size);
}

int fsync(int handle) { return Sync(handle, "fsync"); }
int fdatasync(int handle) { return Sync(handle, "fdatasync"); }

int unlink(const char* path) noexcept {
  static auto* const real = Real<int(const char*)>("unlink");
  const int status = real(path);
  const char* const name = NameOf(path);
  if (status != 0 || name == nullptr) return status;
  const std::lock_guard lock(mutex);
  for (File& file : files) {
    if (file.copy < 0 || strcmp(file.name, name) != 0) continue;
    close(file.copy);
    file.copy = -1;
  }
  char copy[2 * PATH_MAX];
  snprintf(copy, sizeof(copy), "%s%s", copies, name);
  real(copy);
  return status;
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = Real<int(const char*, const char*)>("rename");
  if (NameOf(from) != nullptr || NameOf(to) != nullptr) {
    Die("rename() on a LossyDisk\n");
  }
  return real(from, to);
}

}  // extern "C"
