// SPDX-License-Identifier: Apache-2.0

#include "server/store/store_mark.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

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
  return htole64(XXH3_64bits(&layout, offsetof(Layout, checksum)));
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

absl::StatusOr<StoreMark> StoreMark::Open(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return SystemError(path, "open");
  StoreMark mark(path, file);
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return SystemError(path, "lock");
    return Error(absl::StatusCode::kFailedPrecondition, "STORE_IN_USE",
                 absl::StrCat(path, ": another server holds this store open"));
  }
  return mark;
}

StoreMark::StoreMark(StoreMark&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}

StoreMark::~StoreMark() {
  if (file_ >= 0) close(file_);
}

absl::StatusOr<std::optional<StoreMarkRecord>> StoreMark::Read() const {
  // One byte more, to notice a file that is too long.
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

absl::Status StoreMark::Write(const StoreMarkRecord& record) {
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

}  // namespace planb::server
