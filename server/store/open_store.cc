// SPDX-License-Identifier: Apache-2.0

#include "server/store/open_store.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/regular_file.h"
#include "base/target.h"
#include "server/base/client_channel.h"
#include "server/base/log.h"
#include "server/store/etcd_store.h"
#include "server/store/sqlite_store.h"
#include "server/store/upstream_store.h"

namespace planb::server {
namespace {

constexpr size_t kMaxPassword = 4096;
// How long a server waits at its start for what keeps its tables: it may start
// without, if it has a cache.
constexpr absl::Duration kPatience = absl::Seconds(10);
constexpr absl::Duration kPatienceWithCache = absl::Seconds(3);

absl::Duration Patience(const StoreChoice& choice) {
  return choice.cache.empty() ? kPatience : kPatienceWithCache;
}

absl::StatusOr<StoreSync> ParseSync(const std::string& sync) {
  for (StoreSync each :
       {StoreSync::kFull, StoreSync::kNormal, StoreSync::kOff}) {
    if (sync == StoreSyncName(each)) return each;
  }
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

bool IsEtcd(const StoreChoice& choice) {
  return choice.follow.empty() && absl::StartsWith(choice.store, "etcd:");
}

// The addresses of the other servers from which the tables come, or to which a
// password goes, in plaintext.
std::vector<std::string> PlaintextTargets(const StoreChoice& choice) {
  if (!choice.follow.empty()) {
    return choice.follow_tls.ca.path.empty() ? std::vector{choice.follow}
                                             : std::vector<std::string>();
  }
  if (!IsEtcd(choice) || choice.etcd_user.empty() ||
      !choice.etcd_tls.ca.path.empty()) {
    return {};
  }
  const auto etcd = ParseEtcdUrl(choice.store);
  return etcd.ok() ? etcd->endpoints : std::vector<std::string>();
}

// Errors: INVALID_ARGUMENT.
absl::Status CheckPlaintext(const StoreChoice& choice) {
  if (choice.insecure || !NeedsInsecure(choice)) return absl::OkStatus();
  const bool follows = !choice.follow.empty();
  return absl::InvalidArgumentError(absl::StrCat(
      follows ? "--follow: will not take tables"
              : "--etcd_user: will not send the password",
      follows ? " from " : " to ", absl::StrJoin(PlaintextTargets(choice), ","),
      " in plaintext, for other hosts can reach it: give ",
      follows ? "--follow_ca" : "--etcd_ca",
      ", or --insecure if that is what you want"));
}

// Errors: INVALID_ARGUMENT for the first value that has a meaning only beside
// another one, which is missing.
absl::Status CheckPartners(const StoreChoice& choice) {
  const auto needs = [](bool alone, absl::string_view flag,
                        absl::string_view partner) {
    return alone ? absl::InvalidArgumentError(
                       absl::StrCat(flag, " has no effect without ", partner))
                 : absl::OkStatus();
  };
  absl::Status status =
      needs(choice.follow.empty() && !choice.follow_tls.ca.path.empty(),
            "--follow_ca", "--follow");
  for (const auto& [flag, value] :
       {std::pair("--etcd_user", &choice.etcd_user),
        std::pair("--etcd_password_file", &choice.etcd_password_file),
        std::pair("--etcd_ca", &choice.etcd_tls.ca.path)}) {
    status.Update(
        needs(!IsEtcd(choice) && !value->empty(), flag, "--store=etcd://..."));
  }
  return status;
}

// Errors: INVALID_ARGUMENT if no database can be there. SQLite would say less,
// and the files beside the database would be made.
absl::Status CheckPath(const std::string& path) {
  const std::filesystem::path file(path);
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--store=", path, " is a directory: name a file in it"));
  }
  if (file.has_parent_path() &&
      !std::filesystem::is_directory(file.parent_path(), error)) {
    return absl::InvalidArgumentError(absl::StrCat("--store=", path, ": ",
                                                   file.parent_path().string(),
                                                   " is no directory"));
  }
  return absl::OkStatus();
}

// Errors: INVALID_ARGUMENT for values that exclude each other.
absl::Status CheckValues(const StoreChoice& choice) {
  const absl::Status partners = CheckPartners(choice);
  if (!partners.ok()) return partners;
  if (!choice.follow.empty()) {
    if (choice.store != "auto" && choice.store != "none") {
      return absl::InvalidArgumentError(
          "--follow and --store exclude each other: a follower's tables are "
          "those of the other server");
    }
    const absl::Status target = CheckTarget("--follow", choice.follow);
    return target.ok() ? CheckPlaintext(choice) : target;
  }
  if (choice.store.empty()) {
    return absl::InvalidArgumentError(
        "--store must be a path, none, auto or etcd://...");
  }
  for (const absl::string_view word : {"none", "auto"}) {
    if (choice.store != word && absl::EqualsIgnoreCase(choice.store, word)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--store=", choice.store, ": write ", word, ", or ./",
                       choice.store, " for a file of that name"));
    }
  }
  if (!choice.cache.empty() && !IsRemote(choice)) {
    return absl::InvalidArgumentError(
        "--cache is for a store in etcd and for --follow; other tables are on "
        "this machine anyway");
  }
  absl::Status status = ParseSync(choice.store_sync).status();
  const std::string path = PathOf(choice.store);
  if (path != "none" && !IsEtcd(choice)) status.Update(CheckPath(path));
  return status;
}

// Errors: INVALID_ARGUMENT.
absl::StatusOr<EtcdOptions> EtcdOptionsOf(const StoreChoice& choice) {
  absl::StatusOr<EtcdOptions> etcd = ParseEtcdUrl(choice.store);
  if (!etcd.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--store: ", etcd.status().message()));
  }
  etcd->user = choice.etcd_user;
  if (!choice.etcd_password_file.empty()) {
    const auto password =
        ReadRegularFile(choice.etcd_password_file, kMaxPassword);
    if (!password.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--etcd_password_file: ", password.status().message()));
    }
    etcd->password = std::string(absl::StripTrailingAsciiWhitespace(*password));
  }
  if (choice.etcd_user.empty() != choice.etcd_password_file.empty()) {
    return absl::InvalidArgumentError(
        "--etcd_user and --etcd_password_file go together");
  }
  const absl::Status safe = CheckPlaintext(choice);
  if (!safe.ok()) return safe;
  etcd->tls = choice.etcd_tls;
  return etcd;
}

absl::StatusOr<std::shared_ptr<Store>> OpenEtcd(const StoreChoice& choice) {
  absl::StatusOr<EtcdOptions> etcd = EtcdOptionsOf(choice);
  if (!etcd.ok()) return etcd.status();
  auto store = EtcdStore::Open({.etcd = *std::move(etcd),
                                .patience = Patience(choice),
                                .replica_name = NameOfReplica(choice),
                                .version = choice.version});
  if (!store.ok()) return store.status();
  Log(LogLevel::kInfo, "tables are shared", {{"store", (*store)->path()}});
  return std::shared_ptr<Store>(*std::move(store));
}

absl::StatusOr<std::shared_ptr<Store>> OpenUpstream(const StoreChoice& choice) {
  auto store = UpstreamStore::Open({.target = choice.follow,
                                    .tls = choice.follow_tls,
                                    .timeout = Patience(choice),
                                    .limits = choice.limits});
  if (!store.ok()) return store.status();
  Log(LogLevel::kInfo, "tables follow another server",
      {{"server", choice.follow}});
  return std::shared_ptr<Store>(*std::move(store));
}

}  // namespace

std::string NameOfReplica(const StoreChoice& choice) {
  if (!choice.replica_name.empty()) return choice.replica_name;
  char name[HOST_NAME_MAX + 1] = {};
  gethostname(name, HOST_NAME_MAX);
  return name;
}

bool IsRemote(const StoreChoice& choice) {
  return !choice.follow.empty() || IsEtcd(choice);
}

bool NeedsInsecure(const StoreChoice& choice) {
  const std::vector<std::string> targets = PlaintextTargets(choice);
  return std::any_of(targets.begin(), targets.end(), LeavesHost);
}

std::vector<absl::Status> CheckStore(const StoreChoice& choice) {
  std::vector<absl::Status> of_parts;
  if (!choice.follow.empty()) {
    of_parts = CheckClientTls(choice.follow_tls);
  } else if (IsEtcd(choice)) {
    of_parts = CheckClientTls(choice.etcd_tls);
    of_parts.push_back(EtcdOptionsOf(choice).status());
  }
  of_parts.push_back(CheckValues(choice));
  return of_parts;
}

absl::StatusOr<std::shared_ptr<Store>> OpenStore(const StoreChoice& choice) {
  const absl::Status valid = CheckValues(choice);
  if (!valid.ok()) return valid;
  if (!choice.follow.empty()) return OpenUpstream(choice);
  if (IsEtcd(choice)) return OpenEtcd(choice);
  const std::string path = PathOf(choice.store);
  if (path == "none") {
    Log(LogLevel::kInfo, "tables are kept in memory only");
    return std::shared_ptr<Store>();
  }
  auto store =
      SqliteStore::Open({.path = path, .sync = *ParseSync(choice.store_sync)});
  if (!store.ok()) return store.status();
  Log(LogLevel::kInfo, "tables are stored",
      {{"path", path}, {"sync", choice.store_sync}});
  return std::shared_ptr<Store>(*std::move(store));
}

absl::StatusOr<std::shared_ptr<TableCache>> OpenCache(const StoreChoice& choice,
                                                      const Store* store) {
  if (choice.cache.empty()) return std::shared_ptr<TableCache>();
  auto cache = TableCache::Open(
      choice.cache, absl::StrCat(store->kind(), " ", store->path()));
  if (!cache.ok()) {
    return absl::Status(cache.status().code(),
                        absl::StrCat("--cache: ", cache.status().message()));
  }
  return std::shared_ptr<TableCache>(*std::move(cache));
}

}  // namespace planb::server
