// SPDX-License-Identifier: Apache-2.0

// Which store the operator meant.

#ifndef PLANB_SERVER_STORE_STORE_CHOICE_H_
#define PLANB_SERVER_STORE_STORE_CHOICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/table/store.h"

namespace planb::server {

// `choice` is a path, "none" (then null is returned), or "auto": a database in
// kStateDirectory if that is there, else none. `sync` is "full", "normal" or
// "off". Errors: INVALID_ARGUMENT, and those of SqliteStore::Open.
inline constexpr char kStateDirectory[] = "/var/lib/planb";
absl::StatusOr<std::shared_ptr<Store>> OpenStore(const std::string& choice,
                                                 const std::string& sync);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_STORE_CHOICE_H_
