// SPDX-License-Identifier: Apache-2.0

// Looks up single addresses of both families and returns the answers in the
// same order. Packs the addresses into batches and keeps several in flight,
// also across restarts of the server.

#ifndef PLANB_CLIENT_PLANBCTL_ADDRESS_PIPELINE_H_
#define PLANB_CLIENT_PLANBCTL_ADDRESS_PIPELINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/batch_lookup.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb::client {

// The answer to one address.
struct AddressAnswer {
  Address address;
  // kNoRoute if there is no route. With a flow hash, the member of a group that
  // the flow takes instead of the group.
  NextHopId next_hop = kNoRoute;
  // Set if want_prefixes and there is a route.
  std::optional<Prefix> prefix;
  uint64_t generation = 0;
};

struct PipelineOptions {
  // Empty means "default".
  std::string table = {};
  // Addresses in a batch, and batches in flight; at least 1.
  size_t batch = 4096;
  size_t depth = 4;
  bool want_prefixes = false;
  // Wait until the table is complete.
  bool require_complete = false;
  // The flow that all lookups are for.
  std::optional<uint32_t> flow_hash = std::nullopt;
  // As in BatchLookupOptions.
  absl::Duration stall_timeout = absl::InfiniteDuration();
  absl::Duration give_up_after = absl::Minutes(1);
};

// Thread-compatible. Must not be used after an error.
class AddressPipeline {
 public:
  // Calls `on_answer`, from within Add and Finish, for each address in order.
  AddressPipeline(OpenChannel open, const PipelineOptions& options,
                  std::function<void(const AddressAnswer&)> on_answer);

  // Errors: those of the handle, or of a batch.
  absl::Status Add(const Address& address);

  // Waits for all answers. More addresses may follow.
  absl::Status Finish();

 private:
  absl::Status SendBatch();
  absl::Status ReceiveBatch();

  const PipelineOptions options_;
  const std::function<void(const AddressAnswer&)> on_answer_;
  BatchLookup lookup_;
  // The batch being filled, and the ones in flight, oldest first.
  std::vector<Address> filling_;
  std::deque<std::vector<Address>> sent_;
  // Members so that their memory is reused.
  std::string bytes_v6_;
  std::string bytes_v4_;
  std::vector<uint32_t> flow_hashes_;
  BatchResult result_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_ADDRESS_PIPELINE_H_
