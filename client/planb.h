// SPDX-License-Identifier: Apache-2.0

// The client library, all of it: see client/README.md for which class does
// what. A program that needs one part may include that part alone.

#ifndef PLANB_CLIENT_PLANB_H_
#define PLANB_CLIENT_PLANB_H_

// Channels, their credentials, errors, and when to try again.
#include "client/channel.h"
#include "client/retry.h"
#include "client/status.h"

// Between the values of lpm/ and the contract's messages.
#include "client/convert.h"

// Lookups.
#include "client/batch_lookup.h"
#include "client/batch_stream.h"
#include "client/coalescing_lookup.h"
#include "client/lookup_client.h"

// Tables: changed, replaced, followed, and in files.
#include "client/route_watcher.h"
#include "client/snapshot_transfer.h"
#include "client/table_client.h"
#include "client/update_stream.h"
#include "client/whole_table.h"

#endif  // PLANB_CLIENT_PLANB_H_
