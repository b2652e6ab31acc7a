// Reads and writes table files whole.

#ifndef PLANB_LPM_IO_TESTING_TABLE_READ_H_
#define PLANB_LPM_IO_TESTING_TABLE_READ_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lpm/io/table_file_reader.h"
#include "lpm/io/table_file_writer.h"
#include "lpm/io/testing/table_bytes.h"

namespace planb::testing {

struct TableReading : TableFileSink {
  absl::Status OnHeader(const TableFileHeader& header) override {
    contents.header = header;
    return absl::OkStatus();
  }
  absl::Status OnNextHop(const NextHop& next_hop) override {
    contents.next_hops.push_back(next_hop);
    return absl::OkStatus();
  }
  absl::Status OnGroup(const NextHopGroup& group) override {
    contents.groups.push_back(group);
    return absl::OkStatus();
  }
  absl::Status OnRoute(const Route& route) override {
    contents.routes.push_back(route);
    return absl::OkStatus();
  }
  absl::Status OnEnd(const TableFileCounts& given) override {
    counts = given;
    ++ends;
    return absl::OkStatus();
  }

  TableContents contents;
  TableFileCounts counts;
  int ends = 0;
  absl::Status status;
};

// In pieces of `piece` octets.
inline TableReading ReadTable(absl::string_view octets,
                              size_t piece = SIZE_MAX) {
  TableReading reading;
  TableFileReader reader(reading);
  while (!octets.empty()) {
    // An error does not stop it: it must stay.
    const absl::string_view next = octets.substr(0, piece);
    (void)reader.Push(next);
    octets.remove_prefix(next.size());
  }
  reading.status = reader.Finish();
  return reading;
}

// The octets; in `*status` what the writer said last.
inline std::string WriteTable(const TableContents& contents,
                              absl::Status* status) {
  std::string octets;
  TableFileWriter writer([&](absl::string_view next) {
    octets.append(next.data(), next.size());
    return absl::OkStatus();
  });
  (void)writer.Begin(contents.header);
  for (const NextHop& next_hop : contents.next_hops) (void)writer.Add(next_hop);
  for (const NextHopGroup& group : contents.groups) (void)writer.Add(group);
  for (const Route& route : contents.routes) (void)writer.Add(route);
  *status = writer.Finish();
  return octets;
}

}  // namespace planb::testing

#endif  // PLANB_LPM_IO_TESTING_TABLE_READ_H_
