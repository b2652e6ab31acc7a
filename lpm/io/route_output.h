// The way from the format readers to the caller: hands on what was read,
// counts it, and settles what a problem means under `strict`.

#ifndef PLANB_LPM_IO_ROUTE_OUTPUT_H_
#define PLANB_LPM_IO_ROUTE_OUTPUT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lpm/io/route_sink.h"

namespace planb {

// Where a record starts.
struct RecordPlace {
  uint64_t offset = 0;  // octets into the uncompressed file
  uint64_t line = 0;    // for text, counted from 1; else 0
};

// Every call that returns a status ends the reading unless it is OK.
// Thread-compatible.
class RouteOutput {
 public:
  // `name` stands for the file in error messages. `sink` must outlive this.
  RouteOutput(absl::string_view name, bool strict, RouteSink& sink)
      : name_(name), strict_(strict), sink_(sink) {}
  RouteOutput(const RouteOutput&) = delete;
  RouteOutput& operator=(const RouteOutput&) = delete;

  // Hand on to the sink. Errors: the sink's.
  absl::Status OnNextHop(const NextHop& next_hop);
  absl::Status OnRoute(const Route& route);
  absl::Status OnGroup(const NextHopGroup& group);

  // A record that holds no unicast route, and should not.
  void OnIgnored() { ++report_.ignored; }

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

  const RouteFileReport& report() const { return report_; }

 private:
  absl::Status OnProblem(RecordPlace place, absl::string_view message);

  const std::string name_;
  const bool strict_;
  RouteSink& sink_;
  RouteFileReport report_;
};

}  // namespace planb

#endif  // PLANB_LPM_IO_ROUTE_OUTPUT_H_
