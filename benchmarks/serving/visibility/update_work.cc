// Changes by UpdateRoutes, each followed by a lookup that has to see it.

#include <utility>

#include "absl/strings/str_cat.h"
#include "benchmarks/serving/visibility/works_internal.h"
#include "client/status.h"

namespace planb::visibility::internal {
namespace {

class Updates final : public Work {
 public:
  Updates(std::vector<Batch> batches, const UpdateOptions& options,
          Target& target)
      : batches_(std::move(batches)), options_(options), target_(target) {
    for (size_t i = 0; i < batches_.size(); ++i) {
      v1::UpdateRoutesRequest& request = requests_.emplace_back();
      Encode(batches_[i], *request.mutable_updates());
      const bool last = i + 1 == batches_.size();
      request.set_ack(options.once && !last ? v1::ACK_ACCEPTED
                                            : v1::ACK_VISIBLE);
    }
  }

  absl::StatusOr<Seen> Run(absl::Duration time) override {
    Seen seen;
    const absl::Time start = absl::Now();
    absl::Time due = start;
    do {
      absl::SleepFor(due - absl::Now());
      if (options_.rate > 0) due += absl::Seconds(1 / options_.rate);
      const absl::Status status = Change(seen);
      if (!status.ok()) return status;
      next_ = (next_ + 1) % batches_.size();
    } while (options_.once ? next_ != 0 : absl::Now() - start < time);
    seen.seconds = absl::ToDoubleSeconds(last_visible_ - start);
    return seen;
  }

 private:
  absl::Status Change(Seen& seen) {
    const v1::UpdateRoutesRequest& request = requests_[next_];
    v1::UpdateRoutesResponse response;
    grpc::ClientContext context;
    const uint64_t sent = NowNanos();
    const absl::Status status = client::FromGrpc(
        target_.table->UpdateRoutes(&context, request, &response));
    last_visible_ = absl::Now();
    if (!status.ok()) return status;
    const uint64_t now = NowNanos();
    ++seen.operations;
    seen.changes += batches_[next_].size();
    ApplyTo(batches_[next_], target_.expected);
    const bool changed =
        response.added() + response.changed() + response.removed() > 0;
    if (request.ack() != v1::ACK_VISIBLE) return absl::OkStatus();
    if (changed) {
      if (response.visible_unix_nanos() < response.accepted_unix_nanos()) {
        return absl::InternalError("visible before accepted");
      }
      seen.commit.push_back(
          MicrosBetween(sent, response.accepted_unix_nanos()));
      seen.visible.push_back(MicrosBetween(response.accepted_unix_nanos(),
                                           response.visible_unix_nanos()));
      seen.call.push_back(MicrosBetween(sent, now));
    }
    if (seen.operations % options_.check_every != 0) return absl::OkStatus();
    return CheckSeen(response.generation(), batches_[next_].front().prefix);
  }

  // That a lookup sent now sees `generation` at least, and what it says to the
  // first address of `prefix`.
  absl::Status CheckSeen(uint64_t generation, const Prefix& prefix) {
    v1::LookupRequest request;
    request.add_addresses()->set_packed(prefix.address().ToPacked());
    v1::LookupResponse response;
    grpc::ClientContext context;
    const absl::Status status =
        client::FromGrpc(target_.lookup->Lookup(&context, request, &response));
    if (!status.ok()) return status;
    if (response.generation() < generation || response.results_size() != 1) {
      return absl::InternalError(absl::StrCat("generation ", generation,
                                              " was said to be visible; a "
                                              "lookup saw ",
                                              response.generation()));
    }
    const auto match = target_.expected.Match(prefix.address());
    const NextHopId wanted = match.has_value() ? match->next_hop : kNoRoute;
    if (response.results(0).next_hop_id() == wanted) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat(prefix.ToString(), ": the next hop is ", wanted,
                     "; a lookup says ", response.results(0).next_hop_id()));
  }

  const std::vector<Batch> batches_;
  const UpdateOptions options_;
  Target& target_;
  std::vector<v1::UpdateRoutesRequest> requests_;
  size_t next_ = 0;
  absl::Time last_visible_;
};

}  // namespace

std::unique_ptr<Work> UpdateWork(std::vector<Batch> batches,
                                 const UpdateOptions& options, Target& target) {
  return std::make_unique<Updates>(std::move(batches), options, target);
}

}  // namespace planb::visibility::internal
