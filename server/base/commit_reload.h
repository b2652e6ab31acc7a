// SPDX-License-Identifier: Apache-2.0

// Configuration is reloaded in two steps, so that all of it changes or none:
// what is new is read and checked, then adopted.

#ifndef PLANB_SERVER_BASE_COMMIT_RELOAD_H_
#define PLANB_SERVER_BASE_COMMIT_RELOAD_H_

#include <functional>

namespace planb::server {

// Puts in use what was read and checked. Does not fail. It is called once, or
// never.
using CommitReload = std::function<void()>;

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_COMMIT_RELOAD_H_
