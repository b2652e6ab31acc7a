// SPDX-License-Identifier: Apache-2.0

#include "server/store/table_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/regular_file.h"
#include "lpm/io/table_file.h"
#include "server/base/error.h"
#include "server/base/metric_families.h"
#include "server/store/store_replay.h"

namespace planb::server {
namespace {

constexpr absl::string_view kFormat = "planb cache 3";
constexpr char kSuffix[] = ".planb";
constexpr size_t kMaxIndex = 1 << 20;
constexpr size_t kReadBytes = 1 << 20;

absl::Status Unusable(absl::string_view reason, absl::string_view what) {
  return Error(absl::StatusCode::kFailedPrecondition, reason, what);
}

absl::Status Corrupt(absl::string_view path, absl::string_view what) {
  return Error(absl::StatusCode::kDataLoss, "CACHE_CORRUPT",
               absl::StrCat(path, ": ", what,
                            "; start the server with its store, or remove the "
                            "directory"));
}

// The last line, a checksum of the lines before it.
std::string LastLine(absl::string_view checked) {
  return absl::StrCat("end ", absl::Hex(Xxh3(checked, 0), absl::kZeroPad16),
                      "\n");
}

// A table that is made anew may reach the same generation.
std::string FileOf(absl::string_view name, uint64_t id, uint64_t generation) {
  return absl::StrCat(name, "-", absl::Hex(id, absl::kZeroPad16), "-",
                      generation, kSuffix);
}

// The boot of this machine, and nanoseconds since then, suspended or not; ""
// and 0 if the system does not say.
std::pair<std::string, int64_t> SinceBoot() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  timespec now = {};
  if (boot.empty() || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return {};
  return {boot, absl::ToInt64Nanoseconds(absl::DurationFromTimespec(now))};
}

double UnixSeconds(absl::Time time) {
  return absl::ToDoubleSeconds(time - absl::UnixEpoch());
}

}  // namespace

absl::StatusOr<std::unique_ptr<TableCache>> TableCache::Open(
    const std::string& directory, const std::string& store) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  const int file = error
                       ? -1
                       : open(absl::StrCat(directory, "/lock").c_str(),
                              O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) {
    return Unusable("CACHE_UNWRITABLE",
                    absl::StrCat(directory, ": ",
                                 error ? error.message()
                                       : std::string(std::strerror(errno))));
  }
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    close(file);
    return Unusable("CACHE_IN_USE",
                    absl::StrCat(directory, " is in use by another server"));
  }
  return std::unique_ptr<TableCache>(new TableCache(directory, store, file));
}

TableCache::~TableCache() { close(lock_); }

std::string TableCache::IndexPath() const {
  return absl::StrCat(directory_, "/index");
}

absl::StatusOr<StoredTable> TableCache::Read(StoredTable empty) const {
  const std::string path = absl::StrCat(
      directory_, "/", FileOf(empty.name, empty.id, empty.generation));
  std::ifstream file(path, std::ios::binary);
  if (!file) return Corrupt(path, "cannot be read");
  LogReplay replay;
  replay.table() = std::move(empty);
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  replay.BeginSnapshot(error ? 0 : bytes);
  // Neither a writer's epoch nor requests.
  absl::Status status =
      replay.PushSnapshot(std::string(sizeof(uint64_t) + sizeof(uint32_t), 0));
  std::string part(kReadBytes, '\0');
  while (status.ok() && file) {
    file.read(part.data(), kReadBytes);
    status = replay.PushSnapshot(
        absl::string_view(part.data(), static_cast<size_t>(file.gcount())));
  }
  if (status.ok()) status = replay.EndSnapshot();
  if (!status.ok()) return Corrupt(path, status.message());
  auto finished = replay.Finish();
  if (!finished.ok()) return Corrupt(path, finished.status().message());
  return finished;
}

absl::StatusOr<StoredCopy> TableCache::Load() {
  const MutexLock lock(mutex_);
  const std::string path = IndexPath();
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat(path, " was never written"));
  }
  const auto text = ReadRegularFile(path, kMaxIndex);
  if (!text.ok()) return Corrupt(path, text.status().message());
  const size_t end = text->rfind("end ");
  if (end == std::string::npos ||
      text->substr(end) != LastLine(text->substr(0, end))) {
    return Corrupt(path, "is damaged");
  }
  const std::vector<std::string> lines =
      absl::StrSplit(text->substr(0, end), '\n', absl::SkipEmpty());
  const absl::Status strange = Corrupt(path, "is no index of this version");
  constexpr size_t kHead = 4;
  int64_t as_of = 0;
  if (lines.size() < kHead || lines[0] != kFormat ||
      !absl::SimpleAtoi(lines[2], &as_of)) {
    return strange;
  }
  if (lines[1] != store_) {
    return Unusable("CACHE_OF_ANOTHER_STORE",
                    absl::StrCat(directory_, " has the tables of ", lines[1],
                                 ", not of ", store_));
  }
  StoredCopy contents;
  contents.as_of = absl::FromUnixNanos(as_of);
  contents.age = absl::InfiniteDuration();
  const auto [boot, now] = SinceBoot();
  const std::pair<std::string, std::string> written =
      absl::StrSplit(lines[3], ' ');
  int64_t then = 0;
  if (!absl::SimpleAtoi(written.second, &then)) return strange;
  if (!boot.empty() && written.first == boot && then <= now) {
    contents.age = absl::Nanoseconds(now) - absl::Nanoseconds(then);
  }
  std::vector<std::string> files;
  for (size_t i = kHead; i < lines.size(); ++i) {
    const std::vector<std::string> fields = absl::StrSplit(lines[i], ' ');
    StoredTable head;
    if (fields.size() != 4 || !absl::SimpleHexAtoi(fields[1], &head.id) ||
        !absl::SimpleAtoi(fields[2], &head.generation)) {
      return strange;
    }
    head.name = fields[0];
    head.fib.prefix_lengths = fields[3] == "prefix_lengths";
    files.push_back(FileOf(head.name, head.id, head.generation));
    auto table = Read(std::move(head));
    if (!table.ok()) return table.status();
    contents.tables.push_back(*std::move(table));
  }
  files_ = std::move(files);
  written_ = UnixSeconds(contents.as_of);
  return contents;
}

absl::Status TableCache::WriteAll(absl::Span<const Table> tables,
                                  absl::Time as_of) {
  const auto [boot, now] = SinceBoot();
  const int64_t then =
      absl::ToInt64Nanoseconds(absl::Nanoseconds(now) - (absl::Now() - as_of));
  std::string index =
      absl::StrCat(kFormat, "\n", store_, "\n", absl::ToUnixNanos(as_of), "\n",
                   boot.empty() ? "-" : boot, " ", then, "\n");
  std::vector<std::string> files;
  for (const Table& table : tables) {
    const uint64_t generation = table.pinned.generation;
    files.push_back(FileOf(table.name, table.id, generation));
    absl::StrAppend(&index, table.name, " ", absl::Hex(table.id), " ",
                    generation,
                    table.fib.prefix_lengths ? " prefix_lengths\n" : " -\n");
    if (std::find(files_.begin(), files_.end(), files.back()) != files_.end()) {
      continue;
    }
    AtomicFile file(absl::StrCat(directory_, "/", files.back()));
    absl::Status status = WriteTableFile(
        table.name, table.pinned,
        [&](absl::string_view bytes) { return file.Append(bytes); });
    if (status.ok()) status = file.Commit();
    if (!status.ok()) return status;
  }
  index += LastLine(index);
  AtomicFile file(IndexPath());
  absl::Status status = file.Append(index);
  if (status.ok()) status = file.Commit();
  if (!status.ok()) return status;
  files_ = std::move(files);
  written_ = UnixSeconds(as_of);
  // Also what a crash left.
  std::error_code error;
  for (const auto& each :
       std::filesystem::directory_iterator(directory_, error)) {
    const std::string name = each.path().filename();
    const bool ours =
        absl::StrContains(name, kSuffix) || absl::StartsWith(name, "index.");
    if (ours && std::find(files_.begin(), files_.end(), name) == files_.end()) {
      std::filesystem::remove(each.path(), error);
    }
  }
  return absl::OkStatus();
}

absl::Status TableCache::Write(absl::Span<const Table> tables,
                               absl::Time as_of) {
  const MutexLock lock(mutex_);
  absl::Status status = WriteAll(tables, as_of);
  if (!status.ok()) ++failures_;
  return status;
}

std::vector<prometheus::MetricFamily> CacheMetrics::Collect() const {
  return {
      GaugeFamily("planb_cache_timestamp_seconds",
                  "As of when the copy of the tables (--cache) was last "
                  "written, in seconds since the Unix epoch; 0 without one.",
                  {GaugeOf(cache_ == nullptr ? 0 : cache_->written())}),
      CounterFamily(
          "planb_cache_write_errors_total",
          "Attempts to write the copy of the tables (--cache) that failed; the "
          "one "
          "before stays.",
          {CounterOf(cache_ == nullptr ? 0 : MetricValue(cache_->failures()))}),
  };
}

}  // namespace planb::server
