// SPDX-License-Identifier: Apache-2.0

// A table file: one routing table at one generation, as a stream of
// checksummed blocks. TABLE_FILE.md describes it byte by byte. Its items, and
// how they are written and ordered, are here; table_file_writer.h writes a
// table file, and table_file_reader.h reads one.

#ifndef PLANB_LPM_IO_TABLE_FILE_H_
#define PLANB_LPM_IO_TABLE_FILE_H_

#include <cstddef>
#include <cstdint>
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

// How every table file starts. As in PNG: a byte that is no ASCII, then line
// ends that a transfer as text would change.
inline constexpr absl::string_view kTableFileMagic("\x89PLB\r\n\x1a\n", 8);

inline constexpr uint32_t kTableFileVersion = 1;

// No block has a longer payload, so no item is longer.
inline constexpr size_t kMaxTableFileBlock = 64 << 10;

inline constexpr size_t kTableFileDigestSize = 16;

struct TableFileHeader {
  std::string table;
  uint64_t generation = 0;
  // Of the table's contents, as the table computes it: kTableFileDigestSize
  // bytes that mean nothing to the file.
  std::string digest = std::string(kTableFileDigestSize, '\0');

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

// Receives the contents of a table file, in their order: the header; next hops,
// ascending by id; groups, ascending by id; routes, ascending by prefix (so
// IPv4 first); the end. No id is reserved; whether an id stands for both a next
// hop and a group, and whether those that groups and routes name are there, is
// for the sink to judge. An error ends the reading and is returned by it.
//
// Each block is checked before its items are delivered, but only OnEnd says
// that nothing is missing. Items before it must not take effect on their own.
class TableFileSink {
 public:
  virtual ~TableFileSink() = default;
  virtual absl::Status OnHeader(const TableFileHeader& header) = 0;
  virtual absl::Status OnNextHop(const NextHop& next_hop) = 0;
  virtual absl::Status OnGroup(const NextHopGroup& group) = 0;
  virtual absl::Status OnRoute(const Route& route) = 0;
  // The file is whole, and held as many.
  virtual absl::Status OnEnd(const TableFileCounts& counts) = 0;
};

uint64_t Xxh3(absl::string_view bytes, uint64_t seed);

// Of all bytes added so far, with seed 0. Thread-compatible.
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

// What a block holds; the order of the values is that of the blocks.
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

// Adds the bytes of one item to `out`. They are a faithful copy only if they
// are no more than kMaxTableFileBlock: the lengths in them have 16 bits.
void AppendItem(const TableFileHeader& header, std::string& out);
void AppendItem(const NextHop& next_hop, std::string& out);
void AppendItem(const NextHopGroup& group, std::string& out);
void AppendItem(const Route& route, std::string& out);
void AppendItem(const TableFileEnd& end, std::string& out);

// Takes one item off `cursor`; a route of `family`.
// Errors: INVALID_ARGUMENT, with the defect of the item.
absl::Status ReadItem(ByteCursor& cursor, TableFileHeader& header);
absl::Status ReadItem(ByteCursor& cursor, NextHop& next_hop);
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

// Counts items as they pass. Invariant: those accepted so far are in order.
// Thread-compatible.
class TableFileOrder {
 public:
  // Errors: INVALID_ARGUMENT if the item may not come here, saying after what;
  // it is not counted.
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

}  // namespace planb

#endif  // PLANB_LPM_IO_TABLE_FILE_H_
