// SPDX-License-Identifier: Apache-2.0

// Accepted batches as bytes: what an entry of the log consists of. STORE.md
// describes the format.

#ifndef PLANB_SERVER_STORE_STORE_ENTRY_H_
#define PLANB_SERVER_STORE_STORE_ENTRY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lpm/io/byte_source.h"
#include "server/table/update.h"

namespace planb::server {

// Appends the bytes of one batch to `out`: about 10 for each route.
// REQUIRES: the digest of the delta has 16 bytes.
void AppendBatch(const AcceptedBatch& batch, std::string& out);

// A batch as read from an entry.
struct ReadBatchResult {
  std::optional<Delta> delta;
  uint64_t writer_epoch = 0;
  std::optional<AnsweredRequest> request;
};

// Reads one batch from `cursor`. Errors: INVALID_ARGUMENT, naming the defect.
absl::Status ReadBatch(ByteCursor& cursor, ReadBatchResult& batch);

// One answered request, as in a batch.
void AppendRequest(const AnsweredRequest& request, std::string& out);
absl::Status ReadRequest(ByteCursor& cursor, AnsweredRequest& request);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_STORE_ENTRY_H_
