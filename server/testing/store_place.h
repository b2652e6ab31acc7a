// SPDX-License-Identifier: Apache-2.0

// The files of a store under test: where they are, reading and replacing them.

#ifndef PLANB_SERVER_TESTING_STORE_PLACE_H_
#define PLANB_SERVER_TESTING_STORE_PLACE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"

namespace planb::server {

// The contents of a store's files by their suffix. Absent files are left out.
using StoreFiles = std::map<std::string, std::string>;

// The path of a store in a directory of its own, emptied first.
inline std::string NewStorePath(const std::string& name) {
  const std::string directory =
      absl::StrCat(testing::TempDir(), "/", name, ".d");
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  return absl::StrCat(directory, "/planb.db");
}

inline StoreFiles ReadStoreFiles(const std::string& path) {
  StoreFiles files;
  for (const char* suffix : {"", "-wal", "-shm", "-mark"}) {
    std::ifstream file(absl::StrCat(path, suffix), std::ios::binary);
    if (!file) continue;
    files[suffix] = std::string(std::istreambuf_iterator<char>(file),
                                std::istreambuf_iterator<char>());
  }
  return files;
}

// Replaces the files of a store by these.
inline void WriteStoreFiles(const std::string& path, const StoreFiles& files) {
  for (const char* suffix : {"", "-wal", "-shm", "-mark", "-journal"}) {
    std::filesystem::remove(absl::StrCat(path, suffix));
  }
  for (const auto& [suffix, bytes] : files) {
    std::ofstream(absl::StrCat(path, suffix), std::ios::binary) << bytes;
  }
}

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_STORE_PLACE_H_
