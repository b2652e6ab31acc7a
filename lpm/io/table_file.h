// SPDX-License-Identifier: Apache-2.0

// A table file: one routing table at one generation, as a stream of checksummed
// blocks. TABLE_FILE.md describes it byte by byte. Here are a writer, a reader,
// and what both share: the items, their encoding and their order.

#ifndef PLANB_LPM_IO_TABLE_FILE_H_
#define PLANB_LPM_IO_TABLE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lpm/address.h"
#include "lpm/io/byte_source.h"
#include "lpm/prefix.h"

struct XXH3_state_s;

namespace planb {

// The first bytes of every table file. As in PNG, a byte that is not ASCII, and
// line ends that a transfer as text would change.
inline constexpr absl::string_view kTableFileMagic("\x89PLB\r\n\x1a\n", 8);

// Of files whose next hops have no attributes, and of those where they may.
inline constexpr uint32_t kTableFileVersion = 1;
inline constexpr uint32_t kTableFileVersionWithAttributes = 2;

// The limit on the payload of a block, and so on an item.
inline constexpr size_t kMaxTableFileBlock = 64 << 10;

inline constexpr size_t kTableFileDigestSize = 16;

struct TableFileHeader {
  std::string table;
  uint64_t generation = 0;
  // The digest of the table's contents, of kTableFileDigestSize bytes. The file
  // does not interpret it.
  std::string digest = std::string(kTableFileDigestSize, '\0');
  // Next hops may have attributes. Not of the header's block: it chooses the
  // version of the format.
  bool attributes = false;

  friend bool operator==(const TableFileHeader&,
                         const TableFileHeader&) = default;
};

struct TableFileCounts {
  uint64_t next_hops = 0;
  uint64_t groups = 0;
  uint64_t ipv4_routes = 0;
  uint64_t ipv6_routes = 0;

  friend bool operator==(const TableFileCounts&,
                         const TableFileCounts&) = default;
};

// Receives the contents of a table file in this order: the header; next hops,
// by ascending id; groups, by ascending id; routes, by ascending prefix (IPv4
// first); the end. No id is a reserved one. The sink must check that no id is
// both a next hop's and a group's, and that named ids exist. An error of the
// sink ends the reading, which returns it.
//
// Each block is checked before its items are delivered, but only OnEnd tells
// that the file is whole. Items must not take effect before OnEnd.
class TableFileSink {
 public:
  virtual ~TableFileSink() = default;
  virtual absl::Status OnHeader(const TableFileHeader& header) = 0;
  virtual absl::Status OnNextHop(const NextHop& next_hop) = 0;
  virtual absl::Status OnGroup(const NextHopGroup& group) = 0;
  virtual absl::Status OnRoute(const Route& route) = 0;
  // The file is whole and has this many items.
  virtual absl::Status OnEnd(const TableFileCounts& counts) = 0;
};

uint64_t Xxh3(absl::string_view bytes, uint64_t seed);

// XXH3-64 of all bytes added so far, with seed 0. Thread-compatible.
class Xxh3Stream {
 public:
  Xxh3Stream();

  void Add(absl::string_view bytes);
  uint64_t Value() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  const std::unique_ptr<XXH3_state_s, Free> state_;
};

// Types of blocks, in the order in which a file has them.
enum class TableFileBlock : uint32_t {
  kHeader = 1,
  kNextHops = 2,
  kGroups = 3,
  kIpv4Routes = 4,
  kIpv6Routes = 5,
  kEnd = 6,
};

// The payload of the last block.
struct TableFileEnd {
  TableFileCounts counts;
  uint64_t checksum = 0;  // XXH3-64 of all bytes of the file before the block
};

// Appends the encoding of one item to `out`. It is valid only if it has at most
// kMaxTableFileBlock bytes: the lengths in it have 16 bits. A next hop has its
// attributes only if `attributes` says so.
void AppendItem(const TableFileHeader& header, std::string& out);
void AppendItem(const NextHop& next_hop, bool attributes, std::string& out);
void AppendItem(const NextHopGroup& group, std::string& out);
void AppendItem(const Route& route, std::string& out);
void AppendItem(const TableFileEnd& end, std::string& out);

// Reads one item from `cursor`; a route is of `family`.
// Errors: INVALID_ARGUMENT, naming the defect.
absl::Status ReadItem(ByteCursor& cursor, TableFileHeader& header);
absl::Status ReadItem(ByteCursor& cursor, bool attributes, NextHop& next_hop);
absl::Status ReadItem(ByteCursor& cursor, NextHopGroup& group);
absl::Status ReadItem(ByteCursor& cursor, Family family, Route& route);
absl::Status ReadItem(ByteCursor& cursor, TableFileEnd& end);

// Appends a number, least significant byte first.
template <std::unsigned_integral T>
void AppendLittle(T value, std::string& out) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out.push_back(static_cast<char>(uint64_t{value} >> (8 * i) & 255));
  }
}

// Checks the order of items and counts them. Invariant: the accepted items are
// in order. Thread-compatible.
class TableFileOrder {
 public:
  // Errors: INVALID_ARGUMENT, naming the item before, if the item may not come
  // here. It is not counted then.
  absl::Status Accept(const NextHop& next_hop);
  absl::Status Accept(const NextHopGroup& group);
  absl::Status Accept(const Route& route);

  const TableFileCounts& counts() const { return counts_; }

 private:
  absl::Status AcceptId(NextHopId id, absl::string_view what);

  TableFileCounts counts_;
  NextHopId last_id_ = kNoRoute;  // of the kind that came last
  std::optional<Prefix> last_prefix_;
};

// Writes a table file: call Begin, then Add for next hops, groups and routes,
// each in ascending order, then Finish. The same contents always give the same
// bytes. After an error every further call returns it, and the output is not a
// table file.
//
// Memory: about two blocks. An item takes O(1) and the time of the output.
// Thread-compatible.
class TableFileWriter {
 public:
  // Receives the next bytes of the file: at most a block with its frame, valid
  // during the call. The writer returns its error.
  using Output = std::function<absl::Status(absl::string_view)>;

  explicit TableFileWriter(Output output) : output_(std::move(output)) {}
  TableFileWriter(const TableFileWriter&) = delete;
  TableFileWriter& operator=(const TableFileWriter&) = delete;

  // Errors: those of the output; INVALID_ARGUMENT if the digest has another
  // size, or an item is out of order, has a reserved id, attributes that the
  // header denies, or needs more than kMaxTableFileBlock bytes.
  // REQUIRES: the order of the class comment; Begin and Finish are called once.
  absl::Status Begin(const TableFileHeader& header);
  absl::Status Add(const NextHop& next_hop);
  absl::Status Add(const NextHopGroup& group);
  absl::Status Add(const Route& route);
  absl::Status Finish();

  // The items added so far.
  const TableFileCounts& counts() const { return order_.counts(); }
  // Bytes delivered to the output so far.
  uint64_t bytes() const { return bytes_; }

 private:
  template <typename Item>
  absl::Status AddOrdered(TableFileBlock type, const Item& item);
  // Adds the item to the block in progress, or starts one of `type` with it.
  template <typename Item>
  absl::Status AddToBlock(TableFileBlock type, const Item& item);
  // Writes the block in progress, if there is one, to the output.
  absl::Status Flush();
  absl::Status Put(absl::string_view bytes);

  const Output output_;
  TableFileOrder order_;
  bool attributes_ = false;  // next hops may have some
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

// Reads a table file: call Push with its bytes, in order, in pieces of any
// size, then Finish. After an error every further call returns it.
//
// Errors of either call, besides those of the sink:
//   INVALID_ARGUMENT  not a table file: the magic number is another;
//   UNIMPLEMENTED     a table file of a newer version;
//   DATA_LOSS         a damaged file, also one that is cut or continues after
//                     its end; names the byte and the block.
//
// Memory: one block, however long the file. Thread-compatible.
class TableFileReader {
 public:
  // `sink` must outlive this.
  explicit TableFileReader(TableFileSink& sink);
  TableFileReader(const TableFileReader&) = delete;
  TableFileReader& operator=(const TableFileReader&) = delete;

  absl::Status Push(absl::string_view bytes);

  // Ends the file. Calls OnEnd of the sink if the file is whole. Call once,
  // last.
  absl::Status Finish();

 private:
  enum class State { kPreamble, kBlockHead, kBlock, kDone };

  // Called when `held_` is complete. Each uses it and sets the next state.
  absl::Status OnHeld();
  absl::Status OnPreamble();
  absl::Status OnBlockHead();
  absl::Status OnBlock();

  absl::Status OnPayload(absl::string_view payload);
  absl::Status OnHeader(absl::string_view payload);
  template <typename Item, typename... Form>
  absl::Status OnItems(absl::string_view payload,
                       absl::Status (TableFileSink::*deliver)(const Item&),
                       Form... form);
  absl::Status OnEnd(absl::string_view payload);

  void Await(State state, size_t size);
  absl::Status Damaged(absl::string_view why) const;

  TableFileSink& sink_;
  bool attributes_ = false;  // next hops may have some
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

#endif  // PLANB_LPM_IO_TABLE_FILE_H_
