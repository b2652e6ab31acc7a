#include "lpm/io/problem_output.h"

#include "absl/strings/str_cat.h"

namespace planb {

absl::Status ProblemOutput::OnMalformed(RecordPlace place,
                                        absl::string_view message) {
  ++records_.malformed;
  return OnProblem(place, message);
}

absl::Status ProblemOutput::OnTruncated(RecordPlace place,
                                        absl::string_view message) {
  records_.truncated = true;
  return OnProblem(place, message);
}

absl::Status ProblemOutput::OnEnd(RecordPlace place, const absl::Status& stream,
                                  absl::string_view cut) {
  if (absl::IsDataLoss(stream)) return OnTruncated(place, stream.message());
  if (!stream.ok() || cut.empty()) return stream;
  return OnTruncated(place, cut);
}

absl::Status ProblemOutput::OnProblem(RecordPlace place,
                                      absl::string_view message) {
  if (records_.problems.size() < kMaxRouteFileProblems) {
    records_.problems.push_back(
        {place.offset, place.line, std::string(message)});
  }
  if (!strict_) return absl::OkStatus();
  return absl::DataLossError(
      place.line > 0
          ? absl::StrCat(name_, ":", place.line, ": ", message)
          : absl::StrCat(name_, ": at octet ", place.offset, ": ", message));
}

}  // namespace planb
