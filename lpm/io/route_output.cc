#include "lpm/io/route_output.h"

#include "absl/strings/str_cat.h"

namespace planb {

absl::Status RouteOutput::OnNextHop(const NextHop& next_hop) {
  absl::Status status = sink_.OnNextHop(next_hop);
  if (status.ok()) ++report_.next_hops;
  return status;
}

absl::Status RouteOutput::OnRoute(const Route& route) {
  absl::Status status = sink_.OnRoute(route);
  if (status.ok()) ++report_.routes;
  return status;
}

absl::Status RouteOutput::OnGroup(const NextHopGroup& group) {
  absl::Status status = sink_.OnGroup(group);
  if (status.ok()) ++report_.groups;
  return status;
}

absl::Status RouteOutput::OnMalformed(RecordPlace place,
                                      absl::string_view message) {
  ++report_.malformed;
  return OnProblem(place, message);
}

absl::Status RouteOutput::OnTruncated(RecordPlace place,
                                      absl::string_view message) {
  report_.truncated = true;
  return OnProblem(place, message);
}

absl::Status RouteOutput::OnEnd(RecordPlace place, const absl::Status& stream,
                                absl::string_view cut) {
  if (absl::IsDataLoss(stream)) return OnTruncated(place, stream.message());
  if (!stream.ok() || cut.empty()) return stream;
  return OnTruncated(place, cut);
}

absl::Status RouteOutput::OnProblem(RecordPlace place,
                                    absl::string_view message) {
  if (report_.problems.size() < kMaxRouteFileProblems) {
    report_.problems.push_back(
        {place.offset, place.line, std::string(message)});
  }
  if (!strict_) return absl::OkStatus();
  return absl::DataLossError(
      place.line > 0
          ? absl::StrCat(name_, ":", place.line, ": ", message)
          : absl::StrCat(name_, ": at octet ", place.offset, ": ", message));
}

}  // namespace planb
