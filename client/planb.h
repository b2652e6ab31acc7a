// SPDX-License-Identifier: Apache-2.0

// The whole client library. client/README.md says when to use which class. A
// program may include a single header instead.

#ifndef PLANB_CLIENT_PLANB_H_
#define PLANB_CLIENT_PLANB_H_

// Lookups.
#include "client/batch_lookup.h"
#include "client/coalescing_lookup.h"
#include "client/lookup_client.h"

// Tables: changed, replaced, followed, and in files.
#include "client/next_hop_directory.h"
#include "client/route_watcher.h"
#include "client/table_client.h"
#include "client/update_stream.h"
#include "client/whole_table.h"

// Channels and their credentials; errors, retries and conversions.
#include "client/call.h"
#include "client/channel.h"

#endif  // PLANB_CLIENT_PLANB_H_
