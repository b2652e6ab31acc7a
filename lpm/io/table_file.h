// A table file: one routing table at one generation, as a stream of
// checksummed blocks. TABLE_FILE.md describes it octet by octet. What it holds
// is here; table_file_writer.h makes one, table_file_reader.h takes it apart.

#ifndef PLANB_LPM_IO_TABLE_FILE_H_
#define PLANB_LPM_IO_TABLE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lpm/prefix.h"

namespace planb {

// How every table file starts. As in PNG: an octet that is no ASCII, then line
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
  // octets that mean nothing to the file.
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

// Receives what a table file holds, in its order: the header; next hops,
// ascending by id; groups, ascending by id; routes, ascending by prefix (so
// IPv4 first); the end. No id is reserved; whether an id stands for both a next
// hop and a group, and whether those that groups and routes name are there, is
// for the sink to judge. An error ends the reading and is returned by it.
//
// Each block is checked before its items are delivered, but only OnEnd says
// that nothing is missing: what came before it must not take effect on its own.
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

}  // namespace planb

#endif  // PLANB_LPM_IO_TABLE_FILE_H_
