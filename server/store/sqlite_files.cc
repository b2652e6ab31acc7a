// SPDX-License-Identifier: Apache-2.0

#include "server/store/sqlite_files.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "lpm/io/table_file.h"
#include "server/base/error.h"
#include "server/base/log.h"

namespace planb::server {
namespace {

// How long a commit waits for the lock of another process, such as an
// operator's shell.
constexpr int kBusyMillis = 5000;

// The first bytes of every SQLite database, including the NUL.
constexpr char kHeader[] = "SQLite format 3";

absl::Status Lost(absl::string_view message) {
  return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT", message);
}

constexpr char kMagic[] = "PlanBMk1";
constexpr size_t kBootIdBytes = 16;

// The file, integers little-endian.
struct Layout {
  char magic[8];
  uint64_t store_id;
  uint64_t sequence;
  uint64_t synced;
  char boot_id[kBootIdBytes];
  uint64_t zero;
  uint64_t checksum;  // XXH3 of all before
};
static_assert(sizeof(Layout) == 64);

uint64_t Checksum(const Layout& layout) {
  return htole64(Xxh3(
      {reinterpret_cast<const char*>(&layout), offsetof(Layout, checksum)}, 0));
}

absl::Status SystemError(absl::string_view path, absl::string_view what) {
  const int error = errno;
  const std::string message =
      absl::StrCat(path, ": cannot ", what, ": ", std::strerror(error));
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
      return Error(absl::StatusCode::kFailedPrecondition, "STORE_UNWRITABLE",
                   message);
    default:
      return Error(absl::StatusCode::kUnavailable, "STORE_FAILED", message);
  }
}

}  // namespace

std::string CurrentBootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  text = absl::StrReplaceAll(text, {{"-", ""}});
  if (text.size() != 2 * kBootIdBytes ||
      !std::all_of(text.begin(), text.end(), absl::ascii_isxdigit)) {
    return std::string(kBootIdBytes, '\0');
  }
  return absl::HexStringToBytes(text);
}

absl::StatusOr<CommitWatermark> CommitWatermark::Open(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return SystemError(path, "open");
  CommitWatermark mark(path, file);
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return SystemError(path, "lock");
    return Error(absl::StatusCode::kFailedPrecondition, "STORE_IN_USE",
                 absl::StrCat(path, ": another server holds this store open"));
  }
  return mark;
}

CommitWatermark::CommitWatermark(CommitWatermark&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}

CommitWatermark::~CommitWatermark() {
  if (file_ >= 0) close(file_);
}

absl::StatusOr<std::optional<StoreMarkRecord>> CommitWatermark::Read() const {
  // One byte more, to detect a file that is too long.
  char bytes[sizeof(Layout) + 1] = {};
  const ssize_t size = pread(file_, bytes, sizeof(bytes), 0);
  if (size < 0) return SystemError(path_, "read");
  if (std::all_of(bytes, bytes + size, [](char c) { return c == 0; })) {
    return std::nullopt;
  }
  Layout layout;
  std::memcpy(&layout, bytes, sizeof(layout));
  if (size != sizeof(Layout) ||
      std::memcmp(layout.magic, kMagic, sizeof(layout.magic)) != 0 ||
      layout.checksum != Checksum(layout)) {
    return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT",
                 absl::StrCat(path_, ": is damaged"));
  }
  return StoreMarkRecord{.store_id = le64toh(layout.store_id),
                         .sequence = le64toh(layout.sequence),
                         .synced = layout.synced != 0,
                         .boot_id = std::string(layout.boot_id, kBootIdBytes)};
}

absl::Status CommitWatermark::Write(const StoreMarkRecord& record) {
  Layout layout = {};
  std::memcpy(layout.magic, kMagic, sizeof(layout.magic));
  layout.store_id = htole64(record.store_id);
  layout.sequence = htole64(record.sequence);
  layout.synced = htole64(record.synced ? 1 : 0);
  std::memcpy(layout.boot_id, record.boot_id.data(),
              std::min(kBootIdBytes, record.boot_id.size()));
  layout.checksum = Checksum(layout);
  if (pwrite(file_, &layout, sizeof(layout), 0) != sizeof(layout)) {
    return SystemError(path_, "write");
  }
  return absl::OkStatus();
}

std::string StoreMarkPath(const std::string& path) {
  return absl::StrCat(path, "-mark");
}

uint64_t StoreFileBytes(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0
             ? static_cast<uint64_t>(status.st_size)
             : 0;
}

absl::Status CheckStoreFiles(const std::string& path,
                             const std::optional<StoreMarkRecord>& mark) {
  const std::string log = absl::StrCat(path, "-wal");
  if (StoreFileBytes(path) > 0) {
    // SQLite treats a file of zeros as a new database.
    std::ifstream file(path, std::ios::binary);
    std::array<char, sizeof(kHeader)> header = {};
    file.read(header.data(), header.size());
    if (file.bad() ||
        std::memcmp(header.data(), kHeader, sizeof(kHeader)) != 0) {
      return Lost(absl::StrCat(path, ": is not an SQLite database"));
    }
    return absl::OkStatus();
  }
  if (mark.has_value()) {
    return Lost(absl::StrCat(path, ": is absent or empty, and by ",
                             StoreMarkPath(path), " has ", mark->sequence,
                             " commits"));
  }
  if (StoreFileBytes(log) > 0) {
    return Lost(
        absl::StrCat(path, ": is absent or empty, and ", log, " is there"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Sql>> OpenStoreDatabase(const std::string& path,
                                                       StoreSync sync,
                                                       const std::string& vfs) {
  const bool create = StoreFileBytes(path) == 0;
  auto opened = Sql::Open(path, create, vfs);
  if (!opened.ok()) return opened.status();
  Sql& sql = **opened;
  sqlite3_busy_timeout(sql.sql(), kBusyMillis);
  KeepStoreLog(sql, true);
  // Disables triggers: only commits may change the store.
  sqlite3_db_config(sql.sql(), SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  if (sqlite3_db_readonly(sql.sql(), "main") == 1) {
    return Error(absl::StatusCode::kFailedPrecondition, "STORE_UNWRITABLE",
                 absl::StrCat(path, ": is not writable"));
  }
  // The page size must be set before the first write. A commit of one route
  // writes two pages, one of a million routes about 3,000.
  if (create) {
    if (absl::Status s = sql.Run("PRAGMA page_size = 4096"); !s.ok()) return s;
  }
  const auto mode = sql.Text("PRAGMA journal_mode = WAL");
  if (!mode.ok()) return mode.status();
  if (*mode != "wal") {
    return Error(absl::StatusCode::kFailedPrecondition, "STORE_UNWRITABLE",
                 absl::StrCat(path,
                              ": this file system does not support a"
                              " write-ahead log (journal mode ",
                              *mode, ")"));
  }
  absl::Status status = sql.Run(absl::StrCat(
      "PRAGMA synchronous = ", StoreSyncName(sync),
      // The engine runs checkpoints.
      "; PRAGMA wal_autocheckpoint = 0",
      // After a bulk load the log is truncated to this size. A log of this size
      // is kept, because overwriting a file syncs faster than growing it.
      "; PRAGMA journal_size_limit = ", 64 << 20,
      // In KiB. A larger bulk load spills into the log, in order.
      "; PRAGMA cache_size = -16384",
      // Debian's default would overwrite every page that a deleted table frees.
      "; PRAGMA secure_delete = OFF",
      // With mmap, a truncated file would cause a SIGBUS.
      "; PRAGMA mmap_size = 0",
      "; PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON"));
  if (!status.ok()) return status;
  return opened;
}

void KeepStoreLog(Sql& sql, bool keep) {
  sqlite3_db_config(sql.sql(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep ? 1 : 0,
                    nullptr);
}

absl::Status CheckStoreMark(const std::string& path,
                            const std::optional<StoreMarkRecord>& mark,
                            const StoreRow& store) {
  const std::string mark_path = StoreMarkPath(path);
  if (!mark.has_value()) {
    if (store.sequence > 0) {
      Log(LogLevel::kWarning,
          "store mark absent or without commits, lost ones would go unseen",
          {{"path", mark_path}, {"sequence", store.sequence}});
    }
    return absl::OkStatus();
  }
  if (mark->store_id != store.store_id) {
    return Lost(absl::StrCat(path, ": is not the database that ", mark_path,
                             " belongs to; to use it all the same, move ",
                             mark_path, " away"));
  }
  if (mark->sequence <= store.sequence) return absl::OkStatus();
  if (!mark->synced && mark->boot_id != CurrentBootId()) {
    Log(LogLevel::kWarning, "store lost commits with the machine, unsynced",
        {{"path", path},
         {"sequence", store.sequence},
         {"acknowledged", mark->sequence}});
    return absl::OkStatus();
  }
  return Lost(absl::StrCat(
      path, ": ends at commit ", store.sequence, ", and commits up to ",
      mark->sequence, " were acknowledged: the database or ", path,
      "-wal was truncated, damaged, removed or replaced by an older one; to go"
      " on from the older state, move ",
      mark_path, " away"));
}

absl::Status WithRemedy(const absl::Status& status, const std::string& path) {
  if (status.code() != absl::StatusCode::kDataLoss) return status;
  return Lost(absl::StrCat(
      status.message(), "; to start anew, move ", path, ", ", path, "-wal, ",
      path, "-shm and ", StoreMarkPath(path),
      " away, start with an empty store, and import a snapshot or replace the"
      " routes"));
}

}  // namespace planb::server
