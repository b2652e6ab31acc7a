// SPDX-License-Identifier: Apache-2.0

#include "server/store/store_choice.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/log.h"
#include "server/store/sqlite_store.h"

namespace planb::server {
namespace {

absl::StatusOr<StoreSync> ParseSync(const std::string& sync) {
  if (sync == "full") return StoreSync::kFull;
  if (sync == "normal") return StoreSync::kNormal;
  if (sync == "off") return StoreSync::kOff;
  return absl::InvalidArgumentError(absl::StrCat(
      "--store_sync: \"", sync, "\" is none of full, normal and off"));
}

std::string PathOf(const std::string& choice) {
  if (choice != "auto") return choice;
  std::error_code error;
  return std::filesystem::is_directory(kStateDirectory, error)
             ? absl::StrCat(kStateDirectory, "/planb.db")
             : "none";
}

}  // namespace

absl::StatusOr<std::shared_ptr<Store>> OpenStore(const std::string& choice,
                                                 const std::string& sync) {
  const absl::StatusOr<StoreSync> parsed = ParseSync(sync);
  if (!parsed.ok()) return parsed.status();
  if (choice.empty()) {
    return absl::InvalidArgumentError("--store must be a path, none or auto");
  }
  const std::string path = PathOf(choice);
  if (path == "none") {
    Log(LogLevel::kInfo, "tables are kept in memory only");
    return std::shared_ptr<Store>();
  }
  auto store = SqliteStore::Open({.path = path, .sync = *parsed});
  if (!store.ok()) return store.status();
  Log(LogLevel::kInfo, "tables are stored", {{"path", path}, {"sync", sync}});
  return std::shared_ptr<Store>(*std::move(store));
}

}  // namespace planb::server
