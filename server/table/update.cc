// SPDX-License-Identifier: Apache-2.0

#include "server/table/update.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace planb::server {

std::string UpdateBatch::ChangeField(size_t index) const {
  const size_t v6 = changes.size() - packed_v4 - packed_v6;
  const size_t v4 = changes.size() - packed_v4;
  return index < v6   ? absl::StrCat(fields->changes, "[", index, "]")
         : index < v4 ? absl::StrCat("changes_v6[", index - v6, "]")
                      : absl::StrCat("changes_v4[", index - v4, "]");
}

size_t Delta::bytes() const {
  size_t bytes = sizeof(Delta) + digest.size() +
                 routes.capacity() * sizeof(Route) +
                 next_hops.capacity() * sizeof(NextHop) +
                 groups.capacity() * sizeof(NextHopGroup) +
                 (deleted_next_hops.capacity() + deleted_groups.capacity()) *
                     sizeof(NextHopId);
  for (const NextHop& next_hop : next_hops) bytes += next_hop.text_bytes();
  for (const NextHopGroup& group : groups) {
    bytes += group.label.size() +
             group.members.capacity() * sizeof(NextHopGroup::Member);
  }
  return bytes;
}

size_t CountForgotten(absl::Span<const AnsweredRequest> requests,
                      size_t window) {
  size_t first = 0;
  for (size_t end = 1; end <= requests.size(); ++end) {
    const absl::Time now = requests[end - 1].outcome.accepted;
    while (end - first > window &&
           !IsYoung(requests[first].outcome.accepted, now)) {
      ++first;
    }
  }
  return first;
}

OperationCounts::Op CountedOp(RouteChange::Op op) {
  switch (op) {
    case RouteChange::Op::kUpsert:
      return OperationCounts::kUpsert;
    case RouteChange::Op::kInsert:
      return OperationCounts::kInsert;
    case RouteChange::Op::kReplace:
      return OperationCounts::kReplace;
    case RouteChange::Op::kDelete:
    case RouteChange::Op::kDeleteStrict:
      break;
  }
  return OperationCounts::kDelete;
}

OperationCounts UnchangedOperations(const UpdateBatch& batch) {
  OperationCounts result;
  if (batch.validate_only) return result;
  for (const RouteChange& change : batch.changes) {
    ++result.counts[CountedOp(change.op)][OperationCounts::kUnchanged];
  }
  if (batch.replacement.has_value()) {
    result.counts[OperationCounts::kUpsert][OperationCounts::kUnchanged] =
        batch.replacement->size();
  }
  return result;
}

OperationCounts RefusedOperations(const UpdateBatch& batch) {
  return AllRefused(UnchangedOperations(batch));
}

OperationCounts AllRefused(const OperationCounts& counts) {
  OperationCounts refused;
  for (size_t op = 0; op < OperationCounts::kOps; ++op) {
    for (const uint64_t count : counts.counts[op]) {
      refused.counts[op][OperationCounts::kRefused] += count;
    }
  }
  return refused;
}

}  // namespace planb::server
