// SPDX-License-Identifier: Apache-2.0

// Reads a table file in pieces of any size.

#ifndef PLANB_LPM_IO_TABLE_FILE_READER_H_
#define PLANB_LPM_IO_TABLE_FILE_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lpm/io/table_file.h"

namespace planb {

// Push the bytes of the file, in order, in pieces of any size; then Finish.
// After an error every further call returns it.
//
// Errors of either call, besides those of the sink:
//   INVALID_ARGUMENT  the bytes are no table file: they start otherwise;
//   UNIMPLEMENTED     a table file of a newer version;
//   DATA_LOSS         one that is damaged, cut short or goes on after its end,
//                     saying at which byte and in which block.
//
// Memory: one block, however long the file. Thread-compatible.
class TableFileReader {
 public:
  // `sink` must outlive this.
  explicit TableFileReader(TableFileSink& sink);
  TableFileReader(const TableFileReader&) = delete;
  TableFileReader& operator=(const TableFileReader&) = delete;

  absl::Status Push(absl::string_view bytes);

  // There are no more bytes: tells the sink of the end if nothing is missing
  // and nothing was left over. Call once, last.
  absl::Status Finish();

 private:
  enum class State { kPreamble, kBlockHead, kBlock, kDone };

  // `held_` is complete: each of these uses it and sets the next state.
  absl::Status OnHeld();
  absl::Status OnPreamble();
  absl::Status OnBlockHead();
  absl::Status OnBlock();

  absl::Status OnPayload(absl::string_view payload);
  absl::Status OnHeader(absl::string_view payload);
  template <typename Item, typename... Family>
  absl::Status OnItems(absl::string_view payload,
                       absl::Status (TableFileSink::*deliver)(const Item&),
                       Family... family);
  absl::Status OnEnd(absl::string_view payload);

  void Await(State state, size_t size);
  absl::Status Damaged(absl::string_view why) const;

  TableFileSink& sink_;
  State state_ = State::kPreamble;
  std::string held_;  // bytes not used yet, the first at offset_
  size_t awaited_;    // how many `held_` must have; more than it has
  uint64_t offset_ = 0;
  uint64_t ordinal_ = 0;                           // of the block in progress
  TableFileBlock type_ = TableFileBlock::kHeader;  // of it, or the last
  Xxh3Stream checksum_;  // of all bytes before `held_`
  TableFileOrder order_;
  absl::Status status_;
};

}  // namespace planb

#endif  // PLANB_LPM_IO_TABLE_FILE_READER_H_
