// SPDX-License-Identifier: Apache-2.0

#include "server/store/commit_watermark.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lpm/io/table_file.h"
#include "server/base/error.h"
#include "server/base/log.h"

namespace planb::server {
namespace {

// The first bytes of every SQLite database, including the NUL.
constexpr char kHeader[] = "SQLite format 3";

constexpr std::array<char, 8> kMagic = {'P', 'l', 'a', 'n', 'B', 'M', 'k', '2'};

// The file, in the order of bytes of all machines that the server runs on.
struct Layout {
  std::array<char, 8> magic = kMagic;
  StoreMark mark;
  uint64_t checksum = 0;  // XXH3 of all before
};
static_assert(sizeof(Layout) == 48 &&
              std::endian::native == std::endian::little);

uint64_t Checksum(const Layout& layout) {
  return Xxh3(
      {reinterpret_cast<const char*>(&layout), offsetof(Layout, checksum)}, 0);
}

absl::Status Lost(absl::string_view message) {
  return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT", message);
}

absl::Status SystemError(absl::string_view path, absl::string_view what) {
  const int error = errno;
  const std::string message =
      absl::StrCat(path, ": cannot ", what, ": ", std::strerror(error));
  for (const int refused :
       {EACCES, EPERM, EROFS, ENOENT, ENOTDIR, EISDIR, ENAMETOOLONG}) {
    if (error != refused) continue;
    return Error(absl::StatusCode::kFailedPrecondition, "STORE_UNWRITABLE",
                 message);
  }
  return Error(absl::StatusCode::kUnavailable, "STORE_FAILED", message);
}

}  // namespace

uint64_t ThisBoot() {
  std::string text;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), text);
  return text.empty() ? 0 : Xxh3(text, 0);
}

uint64_t StoreFileBytes(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

absl::StatusOr<std::unique_ptr<CommitWatermark>> CommitWatermark::Open(
    const std::string& path) {
  const std::string name = absl::StrCat(path, "-mark");
  const int file = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return SystemError(name, "open");
  std::unique_ptr<CommitWatermark> mark(new CommitWatermark(path, file));
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return mark;
  if (errno != EWOULDBLOCK) return SystemError(name, "lock");
  return Error(absl::StatusCode::kFailedPrecondition, "STORE_IN_USE",
               absl::StrCat(name, ": another server holds this store open"));
}

CommitWatermark::~CommitWatermark() { close(file_); }

absl::StatusOr<std::optional<StoreMark>> CommitWatermark::Read() const {
  // One byte more, to detect a file that is too long.
  std::array<char, sizeof(Layout) + 1> bytes = {};
  const ssize_t size = pread(file_, bytes.data(), bytes.size(), 0);
  if (size < 0) return SystemError(path_, "read");
  if (std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; })) {
    return std::nullopt;
  }
  Layout layout;
  std::memcpy(&layout, bytes.data(), sizeof(layout));
  if (size == sizeof(Layout) && layout.magic == kMagic &&
      layout.checksum == Checksum(layout)) {
    return layout.mark.sequence == 0 ? std::nullopt
                                     : std::optional(layout.mark);
  }
  char& version = layout.magic.back();
  if (const char own = std::exchange(version, kMagic.back());
      size != sizeof(Layout) && own != kMagic.back() &&
      layout.magic == kMagic) {
    return Error(absl::StatusCode::kFailedPrecondition,
                 own > kMagic.back() ? "STORE_TOO_NEW" : "STORE_TOO_OLD",
                 absl::StrCat(path_,
                              ": is that of a store of another version"
                              " of the server: run that version, or start with"
                              " an empty store"));
  }
  return Lost(absl::StrCat(path_, ": is damaged"));
}

absl::Status CommitWatermark::Write(const StoreMark& mark) {
  Layout layout = {.mark = mark};
  layout.checksum = Checksum(layout);
  return pwrite(file_, &layout, sizeof(layout), 0) == sizeof(layout)
             ? absl::OkStatus()
             : SystemError(path_, "write");
}

absl::Status CommitWatermark::CheckFiles(
    const std::optional<StoreMark>& mark) const {
  const std::string log = absl::StrCat(database_, "-wal");
  if (StoreFileBytes(database_) > 0) {
    std::ifstream file(database_, std::ios::binary);
    std::array<char, sizeof(kHeader)> header = {};
    file.read(header.data(), header.size());
    if (std::memcmp(header.data(), kHeader, sizeof(kHeader)) == 0) {
      return absl::OkStatus();
    }
    return Lost(absl::StrCat(database_, ": is not an SQLite database"));
  }
  if (mark.has_value()) {
    return Lost(absl::StrCat(database_, ": is absent or empty, and by ", path_,
                             " has ", mark->sequence, " commits"));
  }
  if (StoreFileBytes(log) == 0) return absl::OkStatus();
  return Lost(
      absl::StrCat(database_, ": is absent or empty, and ", log, " is there"));
}

absl::Status CommitWatermark::Check(const std::optional<StoreMark>& mark,
                                    uint64_t store_id,
                                    uint64_t sequence) const {
  if (!mark.has_value()) {
    if (sequence > 0) {
      Log(LogLevel::kWarning,
          "store mark absent or without commits, lost ones would go unseen",
          {{"path", path_}, {"sequence", sequence}});
    }
    return absl::OkStatus();
  }
  if (mark->store_id != store_id) {
    return Lost(absl::StrCat(database_, ": is not the database that ", path_,
                             " belongs to; to use it all the same, move ",
                             path_, " away"));
  }
  if (mark->sequence <= sequence) return absl::OkStatus();
  if (mark->synced == 0 && mark->boot != ThisBoot()) {
    Log(LogLevel::kWarning, "store lost commits with the machine, unsynced",
        {{"path", database_},
         {"sequence", sequence},
         {"acknowledged", mark->sequence}});
    return absl::OkStatus();
  }
  return Lost(absl::StrCat(
      database_, ": ends at commit ", sequence, ", and commits up to ",
      mark->sequence, " were acknowledged: the database or ", database_,
      "-wal was truncated, damaged, removed or replaced by an older one; to go"
      " on from the older state, move ",
      path_, " away"));
}

absl::Status WithRemedy(const absl::Status& status, const std::string& path) {
  if (status.code() != absl::StatusCode::kDataLoss) return status;
  return Lost(absl::StrCat(
      status.message(), "; to start anew, move ", path, ", ", path, "-wal, ",
      path, "-shm and ", path,
      "-mark away, start with an empty store, and import a snapshot or replace"
      " the routes"));
}

}  // namespace planb::server
