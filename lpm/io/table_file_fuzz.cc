// What must hold of any octets whatever that are read as a table file, as they
// are and with their checksums made right, so that the reader looks at what is
// behind them. libFuzzer runs it (fuzz.sh), and a plain test does.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "lpm/io/testing/bytes.h"
#include "lpm/io/testing/read.h"

namespace planb {
namespace {

using testing::ReadTable;
using testing::RepairTableFile;
using testing::TableReading;
using testing::WriteTable;

void CheckInOrder(const TableReading& reading) {
  for (const Route& route : reading.contents.routes) {
    ABSL_RAW_CHECK(IsNextHop(route.next_hop), "a reserved next hop");
  }
  ABSL_RAW_CHECK(
      std::is_sorted(
          reading.contents.routes.begin(), reading.contents.routes.end(),
          [](const Route& a, const Route& b) { return a.prefix < b.prefix; }),
      "routes out of order");
}

void Check(const std::string& octets) {
  const TableReading reading = ReadTable(octets);
  const TableReading pieces = ReadTable(octets, 3);
  ABSL_RAW_CHECK(reading.status == pieces.status, "another status");
  ABSL_RAW_CHECK(reading.contents == pieces.contents, "other contents");
  ABSL_RAW_CHECK(reading.ends == (reading.status.ok() ? 1 : 0), "a wrong end");
  CheckInOrder(reading);
  if (!reading.status.ok()) {
    ABSL_RAW_CHECK(absl::IsDataLoss(reading.status) ||
                       absl::IsInvalidArgument(reading.status) ||
                       absl::IsUnimplemented(reading.status),
                   "another error");
    return;
  }
  // Written again it says the same, in as many octets or fewer: the writer
  // fills its blocks.
  absl::Status status;
  const std::string written = WriteTable(reading.contents, &status);
  ABSL_RAW_CHECK(status.ok(), "read but not to be written");
  ABSL_RAW_CHECK(written.size() <= octets.size(), "written wastefully");
  ABSL_RAW_CHECK(ReadTable(written).contents == reading.contents,
                 "written otherwise");
  // And no part of it is enough.
  ABSL_RAW_CHECK(!ReadTable(octets.substr(0, octets.size() - 1)).status.ok(),
                 "a cut file taken for whole");
}

}  // namespace
}  // namespace planb

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string octets(reinterpret_cast<const char*>(data), size);
  planb::Check(octets);
  planb::Check(planb::testing::RepairTableFile(octets));
  return 0;
}
