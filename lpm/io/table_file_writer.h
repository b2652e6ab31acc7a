// SPDX-License-Identifier: Apache-2.0

// Writes a table file, a block at a time.

#ifndef PLANB_LPM_IO_TABLE_FILE_WRITER_H_
#define PLANB_LPM_IO_TABLE_FILE_WRITER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lpm/io/table_file.h"
#include "lpm/prefix.h"

namespace planb {

// Begin; then next hops, groups and routes, each in ascending order; Finish.
// The same contents always give the same bytes. After an error every further
// call returns it, and the output is not a table file.
//
// Memory: about two blocks. O(1) an item, and the output's time.
// Thread-compatible.
class TableFileWriter {
 public:
  // Takes the next bytes of the file: at most a block with its frame, valid
  // during the call. An error ends the writing and is returned by it.
  using Output = std::function<absl::Status(absl::string_view)>;

  explicit TableFileWriter(Output output) : output_(std::move(output)) {}
  TableFileWriter(const TableFileWriter&) = delete;
  TableFileWriter& operator=(const TableFileWriter&) = delete;

  // Errors: those of the output; INVALID_ARGUMENT if the digest has another
  // size, or an item is out of order, has a reserved id or needs more than
  // kMaxTableFileBlock bytes.
  // REQUIRES: in the order of the class comment; Finish last and once.
  absl::Status Begin(const TableFileHeader& header);
  absl::Status Add(const NextHop& next_hop);
  absl::Status Add(const NextHopGroup& group);
  absl::Status Add(const Route& route);
  absl::Status Finish();

  // Of what was added.
  const TableFileCounts& counts() const { return order_.counts(); }
  // Handed to the output so far.
  uint64_t bytes() const { return bytes_; }

 private:
  template <typename Item>
  absl::Status AddOrdered(TableFileBlock type, const Item& item);
  // Adds the item to the block in progress, or starts one of `type` with it.
  template <typename Item>
  absl::Status AddToBlock(TableFileBlock type, const Item& item);
  // Puts the block in progress out, if there is one.
  absl::Status Flush();
  absl::Status Put(absl::string_view bytes);

  const Output output_;
  TableFileOrder order_;
  bool begun_ = false;
  bool finished_ = false;
  TableFileBlock type_ = TableFileBlock::kHeader;  // of the block in progress
  std::string payload_;                            // of it; may be empty
  std::string frame_;                              // kept for its memory
  uint64_t ordinal_ = 0;                           // of it
  uint64_t bytes_ = 0;
  Xxh3Stream checksum_;  // of all bytes put out
  absl::Status status_;
};

}  // namespace planb

#endif  // PLANB_LPM_IO_TABLE_FILE_WRITER_H_
