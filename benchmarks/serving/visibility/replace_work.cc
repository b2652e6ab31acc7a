// Whole tables by ReplaceRoutes.

#include <utility>

#include "absl/strings/str_cat.h"
#include "benchmarks/serving/visibility/works_internal.h"
#include "client/status.h"

namespace planb::visibility::internal {
namespace {

class Replacements final : public Work {
 public:
  Replacements(std::vector<std::vector<Route>> tables, bool once,
               Target& target)
      : once_(once), target_(target) {
    for (const std::vector<Route>& table : tables) {
      messages_.push_back(EncodeTable(table));
      sets_.emplace_back(Family::kIpv6, table);
    }
  }

  absl::StatusOr<Seen> Run(absl::Duration time) override {
    Seen seen;
    const absl::Time start = absl::Now();
    do {
      const absl::Status status = Replace(seen);
      if (!status.ok()) return status;
      next_ = (next_ + 1) % sets_.size();
      // Ends with the last table, which is the one all works begin with.
    } while (next_ != 0 || (!once_ && absl::Now() - start < time));
    seen.seconds = absl::ToDoubleSeconds(absl::Now() - start);
    return seen;
  }

 private:
  absl::Status Replace(Seen& seen) {
    grpc::ClientContext context;
    v1::ReplaceRoutesResponse response;
    const uint64_t start = NowNanos();
    const auto call = target_.table->ReplaceRoutes(&context, &response);
    uint64_t sent = start;
    for (const v1::ReplaceRoutesRequest& message : messages_[next_]) {
      if (message.commit()) sent = NowNanos();
      if (!call->Write(message)) break;
    }
    call->WritesDone();
    const absl::Status status = client::FromGrpc(call->Finish());
    const uint64_t now = NowNanos();
    if (!status.ok()) return status;
    target_.expected = sets_[next_].Share();
    const RouteSet& table = target_.expected;
    if (response.added() + response.changed() + response.unchanged() !=
        table.size()) {
      return absl::InternalError("a table came to another number of routes");
    }
    if (response.visible_unix_nanos() < response.accepted_unix_nanos()) {
      return absl::InternalError("visible before accepted");
    }
    ++seen.operations;
    seen.changes += table.size();
    seen.commit.push_back(MicrosBetween(sent, response.accepted_unix_nanos()));
    seen.visible.push_back(MicrosBetween(response.accepted_unix_nanos(),
                                         response.visible_unix_nanos()));
    seen.call.push_back(MicrosBetween(start, now));
    return absl::OkStatus();
  }

  const bool once_;
  Target& target_;
  std::vector<std::vector<v1::ReplaceRoutesRequest>> messages_;
  std::vector<RouteSet> sets_;
  size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Work> ReplaceWork(std::vector<std::vector<Route>> tables,
                                  bool once, Target& target) {
  return std::make_unique<Replacements>(std::move(tables), once, target);
}

}  // namespace planb::visibility::internal
