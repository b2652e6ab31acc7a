// The payloads of a table file's blocks: items to octets and back.

#ifndef PLANB_LPM_IO_TABLE_FILE_ITEMS_H_
#define PLANB_LPM_IO_TABLE_FILE_ITEMS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "lpm/address.h"
#include "lpm/io/octets.h"
#include "lpm/io/table_file.h"
#include "lpm/prefix.h"

namespace planb {

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
  uint64_t checksum = 0;  // XXH3-64 of all octets of the file before the block
};

// Adds the octets of one item to `out`. They are a faithful copy only if they
// are no more than kMaxTableFileBlock: the lengths in them have 16 bits.
void AppendItem(const TableFileHeader& header, std::string& out);
void AppendItem(const NextHop& next_hop, std::string& out);
void AppendItem(const NextHopGroup& group, std::string& out);
void AppendItem(const Route& route, std::string& out);
void AppendItem(const TableFileEnd& end, std::string& out);

// Takes one item off `cursor`; a route of `family`.
// Errors: INVALID_ARGUMENT, saying what is wrong with the item.
absl::Status ReadItem(OctetCursor& cursor, TableFileHeader& header);
absl::Status ReadItem(OctetCursor& cursor, NextHop& next_hop);
absl::Status ReadItem(OctetCursor& cursor, NextHopGroup& group);
absl::Status ReadItem(OctetCursor& cursor, Family family, Route& route);
absl::Status ReadItem(OctetCursor& cursor, TableFileEnd& end);

// Numbers in files of ours: least significant octet first.
template <std::unsigned_integral T>
void AppendLittle(T value, std::string& out) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out.push_back(static_cast<char>(uint64_t{value} >> (8 * i) & 255));
  }
}

}  // namespace planb

#endif  // PLANB_LPM_IO_TABLE_FILE_ITEMS_H_
