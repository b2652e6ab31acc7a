// SPDX-License-Identifier: Apache-2.0

#include "server/testing/lossy_disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace planb::server {
namespace {

namespace fs = std::filesystem;

// What a disk writes whole.
constexpr size_t kSector = 512;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file),
                     std::istreambuf_iterator<char>());
}

// The file after a loss of power: as it was synced, and each sector written
// since only with this chance. Counts those that are lost.
std::string AfterLoss(const std::string& written, const std::string& synced,
                      uint64_t percent, std::mt19937_64& random,
                      uint64_t& lost) {
  std::string result = synced;
  for (size_t at = 0; at < std::max(written.size(), synced.size());
       at += kSector) {
    const auto sector = [at](const std::string& bytes) {
      return at < bytes.size() ? bytes.substr(at, kSector) : "";
    };
    const std::string after = sector(written);
    if (after == sector(synced)) continue;
    if (random() % 100 >= percent) {
      ++lost;
      continue;
    }
    if (after.empty()) {
      // The file was cut here, and the disk knows.
      result.resize(std::min(result.size(), at));
      break;
    }
    // What is missing in front of a sector that was written is zeros.
    result.resize(std::max(result.size(), at + after.size()));
    result.replace(at, after.size(), after);
  }
  return result;
}

}  // namespace

LossyDisk::LossyDisk(const std::string& store)
    : directory_(fs::canonical(fs::path(store).parent_path())),
      copies_(absl::StrCat(directory_, ".copies")) {
  fs::remove_all(copies_);
  fs::create_directories(copies_);
  const int file = open(absl::StrCat(copies_, "/faults").c_str(),
                        O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  EXPECT_EQ(ftruncate(file, sizeof(LossyDiskFaults)), 0);
  void* const page = mmap(nullptr, sizeof(LossyDiskFaults),
                          PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  EXPECT_NE(page, MAP_FAILED);
  close(file);
  faults_ = static_cast<LossyDiskFaults*>(page);
  NewBootId();
}

LossyDisk::~LossyDisk() { munmap(faults_, sizeof(LossyDiskFaults)); }

void LossyDisk::NewBootId() const {
  std::ofstream(absl::StrCat(copies_, "/boot_id"))
      << absl::StrFormat("%032x\n", boots_ + 1);
}

std::vector<std::string> LossyDisk::environment() const {
  const std::string library = fs::absolute("server/testing/liblost_writes.so");
  EXPECT_TRUE(fs::exists(library));
  const char* const asan = std::getenv("ASAN_OPTIONS");
  return {absl::StrCat("PLANB_LOSSY_DISK=", directory_),
          absl::StrCat("LD_PRELOAD=", library),
          // ASan demands to be the first library. This one does not allocate.
          absl::StrCat("ASAN_OPTIONS=", asan == nullptr ? "" : asan,
                       ":verify_asan_link_order=0")};
}

uint64_t LossyDisk::LosePower(std::mt19937_64& random, uint64_t kept_percent) {
  uint64_t lost = 0;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory_)) {
    files.push_back(entry.path());
  }
  for (const fs::path& path : files) {
    const fs::path copy = fs::path(copies_) / path.filename();
    if (absl::EndsWith(path.string(), "-shm")) {
      fs::remove(path);
    } else if (fs::exists(copy)) {
      const std::string bytes =
          AfterLoss(ReadFile(path), ReadFile(copy), kept_percent, random, lost);
      for (const fs::path& each : {path, copy}) {
        std::ofstream(each, std::ios::binary) << bytes;
      }
    }
  }
  ++boots_;
  NewBootId();
  return lost;
}

void LossyDisk::Fail(int error, uint32_t percent) {
  faults_->failed.store(0);
  faults_->percent.store(percent);
  faults_->error.store(error);
}

uint32_t LossyDisk::Heal() {
  faults_->error.store(0);
  return faults_->failed.load();
}

}  // namespace planb::server
