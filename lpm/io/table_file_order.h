// The order of a table file's items: what the writer may write and the reader
// may find.

#ifndef PLANB_LPM_IO_TABLE_FILE_ORDER_H_
#define PLANB_LPM_IO_TABLE_FILE_ORDER_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lpm/io/table_file.h"
#include "lpm/prefix.h"

namespace planb {

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

#endif  // PLANB_LPM_IO_TABLE_FILE_ORDER_H_
