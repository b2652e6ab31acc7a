// Makes table files block by block, good ones and bad ones. Nothing here is
// shared with the writer.

#ifndef PLANB_LPM_IO_TESTING_TABLE_BYTES_H_
#define PLANB_LPM_IO_TESTING_TABLE_BYTES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "lpm/io/table_file.h"
#include "lpm/prefix.h"

namespace planb::testing {

// Numbers, least significant octet first.
std::string Little16(uint64_t value);
std::string Little32(uint64_t value);
std::string Little64(uint64_t value);

// A file of blocks, each a type and a payload, with the right checksums. If the
// last is an end block of 32 octets, the file's own checksum is added to it.
std::string TableFileOf(
    const std::vector<std::pair<uint32_t, std::string>>& blocks,
    uint32_t version = 1);

// `octets` with the checksums made right wherever its lengths lead to one.
std::string RepairTableFile(std::string octets);

// All of a table file.
struct TableContents {
  TableFileHeader header;
  std::vector<NextHop> next_hops;
  std::vector<NextHopGroup> groups;
  std::vector<Route> routes;

  friend bool operator==(const TableContents&, const TableContents&) = default;
};

// With a next hop, a group and a route of each kind there is.
TableContents SmallTable();

}  // namespace planb::testing

#endif  // PLANB_LPM_IO_TESTING_TABLE_BYTES_H_
