// SPDX-License-Identifier: Apache-2.0

// Opens the store that the command line names.

#ifndef PLANB_SERVER_STORE_OPEN_STORE_H_
#define PLANB_SERVER_STORE_OPEN_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "follow/generation_assembler.h"
#include "server/base/tls_files.h"
#include "server/store/table_cache.h"
#include "server/table/store.h"

namespace planb::server {

// The values of the flags with these names.
struct StoreChoice {
  // A path; "none"; "auto": a database in kStateDirectory if that directory
  // exists, otherwise none; or etcd://HOST:PORT[,HOST:PORT...]/PREFIX.
  std::string store = "auto";
  // "full", "normal" or "off", for a database.
  std::string store_sync = "full";
  // For etcd.
  std::string etcd_user;
  std::string etcd_password_file;
  TlsFiles etcd_tls;
  // The server to follow, instead of a store; empty: none.
  std::string follow;
  TlsFiles follow_tls;
  // Plaintext may go to other hosts.
  bool insecure = false;
  // How much a table that is followed may have.
  GenerationLimits limits;
  // The directory of the TableCache; empty: none.
  std::string cache;
  // Empty: the host's name.
  std::string replica_name;
  std::string version;
};

// What this server is called.
std::string NameOfReplica(const StoreChoice& choice);

// True if another server keeps the tables.
bool IsRemote(const StoreChoice& choice);

// True if this sends a password of etcd to another host in plaintext, or
// follows one so: it must be `insecure`.
bool NeedsInsecure(const StoreChoice& choice);

// What can be known before OpenStore() and OpenCache(), without a database or
// other servers; files of TLS included. Of each part: OK, or INVALID_ARGUMENT
// that names its flag.
std::vector<absl::Status> CheckStore(const StoreChoice& choice);

// Null for none. Errors: INVALID_ARGUMENT, and those of SqliteStore::Open and
// EtcdStore::Open.
inline constexpr char kStateDirectory[] = "/var/lib/planb";
absl::StatusOr<std::shared_ptr<Store>> OpenStore(const StoreChoice& choice);

// Null for none. `store` is of the same choice. Errors: those of
// TableCache::Open.
absl::StatusOr<std::shared_ptr<TableCache>> OpenCache(const StoreChoice& choice,
                                                      const Store* store);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_OPEN_STORE_H_
