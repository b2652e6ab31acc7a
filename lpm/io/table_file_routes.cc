#include "lpm/io/table_file_routes.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lpm/io/table_file_reader.h"

namespace planb {
namespace {

absl::Status Named(absl::string_view name, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(name, ": ", status.message()));
}

// Invariant: `named_` has the ids of all next hops and groups handed on, and of
// the groups' members.
// Thread-compatible.
class HandOn : public TableFileSink {
 public:
  explicit HandOn(RouteOutput& out) : out_(out) {}

  absl::Status OnHeader(const TableFileHeader&) override {
    return absl::OkStatus();
  }

  absl::Status OnNextHop(const NextHop& next_hop) override {
    named_.insert(next_hop.id);
    return Keep(out_.OnNextHop(next_hop));
  }

  absl::Status OnGroup(const NextHopGroup& group) override {
    // A member that an earlier group named may turn out to be this group: it
    // would be a group of groups, which there is not.
    if (!named_.insert(group.id).second) {
      return Keep(absl::DataLossError(
          absl::StrCat(out_.name(), ": damaged table file: ", group.id,
                       " is the id of a next hop and of a group")));
    }
    for (const NextHopGroup::Member& member : group.members) {
      named_.insert(member.next_hop);
    }
    return Keep(out_.OnGroup(group));
  }

  absl::Status OnRoute(const Route& route) override {
    return Keep(out_.OnRoute(route));
  }

  absl::Status OnEnd(const TableFileCounts&) override {
    return absl::OkStatus();
  }

  // The last error that is not the reader's.
  const absl::Status& status() const { return status_; }

 private:
  absl::Status Keep(absl::Status status) { return status_ = status; }

  RouteOutput& out_;
  absl::flat_hash_set<NextHopId> named_;
  absl::Status status_;
};

}  // namespace

absl::Status ReadTableFileRoutes(ByteReader& in, RouteOutput& out) {
  HandOn hand_on(out);
  TableFileReader reader(hand_on);
  absl::Status status;
  while (status.ok()) {
    const absl::string_view ahead = in.Peek(1);
    if (ahead.empty()) break;
    status = reader.Push(ahead);
    in.Consume(ahead.size());
  }
  // A stream that could not be read says more than what is missing then.
  if (status.ok() && !in.status().ok()) {
    return absl::IsDataLoss(in.status()) ? Named(out.name(), in.status())
                                         : in.status();
  }
  if (status.ok()) status = reader.Finish();
  if (status.ok() || !hand_on.status().ok()) return status;
  return Named(out.name(), status);
}

}  // namespace planb
