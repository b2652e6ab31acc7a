// What the readers of record files say about what they could not read: counts
// it, keeps the first few, and settles what a problem means under `strict`.

#ifndef PLANB_LPM_IO_PROBLEM_OUTPUT_H_
#define PLANB_LPM_IO_PROBLEM_OUTPUT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace planb {

// A record that could not be read.
struct RouteFileProblem {
  uint64_t offset = 0;  // of the record: octets into the uncompressed file
  uint64_t line = 0;    // for text, counted from 1; else 0
  std::string message;
};

// How many problems a report describes; the rest is only counted.
inline constexpr size_t kMaxRouteFileProblems = 16;

// About the reading of any file of records.
struct RecordReport {
  uint64_t malformed = 0;  // records, or single paths of a record, skipped
  uint64_t ignored = 0;    // well-formed records that hold nothing of use
  // The first few problems.
  std::vector<RouteFileProblem> problems;
  // The file ended in the middle of a record or of its compression, or its
  // compression is corrupt: what followed is missing, what came before was
  // handed out.
  bool truncated = false;
};

// Where a record starts.
struct RecordPlace {
  uint64_t offset = 0;  // octets into the uncompressed file
  uint64_t line = 0;    // for text, counted from 1; else 0
};

// Every call that returns a status ends the reading unless it is OK.
// Thread-compatible.
class ProblemOutput {
 public:
  // `name` stands for the file in error messages.
  ProblemOutput(absl::string_view name, bool strict)
      : name_(name), strict_(strict) {}
  ProblemOutput(const ProblemOutput&) = delete;
  ProblemOutput& operator=(const ProblemOutput&) = delete;

  // A record that holds nothing of use, and should not.
  void OnIgnored() { ++records_.ignored; }

  // A record, or a part of one, that is skipped.
  // Errors: DATA_LOSS with `strict`.
  absl::Status OnMalformed(RecordPlace place, absl::string_view message);

  // The file ends before it should. Errors: DATA_LOSS with `strict`.
  absl::Status OnTruncated(RecordPlace place, absl::string_view message);

  // The stream gave no more octets at `place`, and `stream` is its status: what
  // that means. `cut` says what is incomplete; empty at a good place to end.
  // Errors: `stream` itself unless OK or DATA_LOSS; DATA_LOSS with `strict`.
  absl::Status OnEnd(RecordPlace place, const absl::Status& stream,
                     absl::string_view cut);

  // What the error messages call the file.
  const std::string& name() const { return name_; }

  const RecordReport& records() const { return records_; }

 private:
  absl::Status OnProblem(RecordPlace place, absl::string_view message);

  const std::string name_;
  const bool strict_;
  RecordReport records_;
};

}  // namespace planb

#endif  // PLANB_LPM_IO_PROBLEM_OUTPUT_H_
