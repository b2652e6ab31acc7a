// SPDX-License-Identifier: Apache-2.0

#include "server/lookup/lookup_context.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace planb::server {

void WhenVisible(const LookupContext& context, Table& table,
                 uint64_t generation, absl::Duration wait,
                 const std::function<void(absl::Status)>& done) {
  if (IsVisible(table, generation)) return done(absl::OkStatus());
  const SteadyInstant deadline =
      SteadyAfter(std::min(wait, context.limits.max_generation_wait));
  // Waiters report DEADLINE_EXCEEDED. For the client it is a precondition that
  // does not hold yet: the same lookup may succeed later.
  const auto translated = [done, generation](const absl::Status& status) {
    done(absl::IsDeadlineExceeded(status)
             ? FieldError(absl::StatusCode::kFailedPrecondition,
                          "GENERATION_NOT_VISIBLE", "min_generation",
                          absl::StrCat("generation ", generation,
                                       " did not become visible in time"))
             : status);
  };
  const absl::Status waits =
      table.WhenVisible(generation, deadline, translated);
  if (!waits.ok()) done(waits);
}

}  // namespace planb::server
