#include "benchmarks/serving/visibility/works.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "benchmarks/serving/visibility/changes.h"
#include "benchmarks/serving/visibility/works_internal.h"

namespace planb::visibility {
namespace {

using internal::ReplaceWork;
using internal::StreamWork;
using internal::UpdateWork;

constexpr size_t kLoadChunk = 10'000;
// Changes made for a stream: enough that the table's memory is not a cache's.
constexpr size_t kStreamChanges = 200'000;

void Append(const std::vector<double>& from, std::vector<double>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

// `name` is `kind` and a number.
bool Sized(absl::string_view name, absl::string_view kind, size_t& size) {
  return absl::ConsumePrefix(&name, kind) && absl::SimpleAtoi(name, &size) &&
         size > 0;
}

std::vector<Batch> Chunks(absl::Span<const Route> routes) {
  std::vector<Batch> chunks;
  for (size_t i = 0; i < routes.size(); i += kLoadChunk) {
    const auto chunk = routes.subspan(i, kLoadChunk);
    chunks.emplace_back(chunk.begin(), chunk.end());
  }
  return chunks;
}

}  // namespace

namespace internal {

void ApplyTo(const Batch& batch, RouteSet& routes) {
  for (const Route& change : batch) {
    routes.Exchange(change.prefix, change.next_hop);
  }
}

}  // namespace internal

void Seen::Add(const Seen& other) {
  Append(other.commit, commit);
  Append(other.visible, visible);
  Append(other.call, call);
  operations += other.operations;
  changes += other.changes;
  seconds += other.seconds;
}

Target::Target(const std::shared_ptr<grpc::Channel>& channel)
    : table(v1::RouteTable::NewStub(channel)),
      lookup(v1::RouteLookup::NewStub(channel)),
      client(channel) {}

absl::StatusOr<v1::Table> Target::State() const { return client.GetTable(""); }

absl::Status Target::CheckTable() const {
  auto next = expected.begin();
  uint64_t listed = 0;
  const auto generation =
      client.ListRoutes({}, [&](const Route& route) -> absl::Status {
        if (next == expected.end() || *next != route) {
          return absl::InternalError(absl::StrCat(
              "the table has an unexpected ", route.prefix.ToString()));
        }
        ++next;
        ++listed;
        return absl::OkStatus();
      });
  if (!generation.ok()) return generation.status();
  if (next == expected.end()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "the table has ", listed, " routes instead of ", expected.size()));
}

absl::StatusOr<std::unique_ptr<Work>> MakeWork(absl::string_view name,
                                               absl::Span<const Route> routes,
                                               const WorkOptions& options,
                                               Target& target) {
  if (name == "load_update") {
    return UpdateWork(Chunks(routes), {.once = true}, target);
  }
  if (name == "load_stream") return StreamWork(Chunks(routes), true, target);
  std::vector<Route> own(routes.begin(), routes.end());
  if (name == "load_replace") {
    return ReplaceWork({std::move(own)}, true, target);
  }
  if (name == "replace_near") {
    return ReplaceWork({NearTable(routes), std::move(own)}, false, target);
  }
  if (name == "replace_other") {
    return ReplaceWork({OtherTable(routes), std::move(own)}, false, target);
  }
  size_t size = 1;
  size_t count = options.batches;
  const bool stream = Sized(name, "stream_", size);
  const bool one = name == "one" || name == "one_full";
  if (!stream && !one && !Sized(name, "batch_", size)) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no work \"", name, "\""));
  }
  if (one) count = std::max<size_t>(count, 2000);
  if (stream) count = std::max<size_t>(kStreamChanges / size, 2);
  auto batches = MakeBatches(routes, size, count, /*seed=*/size);
  if (!batches.ok()) return batches.status();
  if (stream) return StreamWork(*std::move(batches), false, target);
  // At full speed, looking after every change would be a storm of its own.
  return UpdateWork(*std::move(batches),
                    {.rate = name == "one" ? options.rate : 0,
                     .check_every = name == "one_full" ? 64U : 1U},
                    target);
}

}  // namespace planb::visibility
