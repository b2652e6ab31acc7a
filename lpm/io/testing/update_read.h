// Reads octets as an update file and keeps everything that came of it.

#ifndef PLANB_LPM_IO_TESTING_UPDATE_READ_H_
#define PLANB_LPM_IO_TESTING_UPDATE_READ_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lpm/io/bgp_updates.h"
#include "lpm/io/byte_source.h"

namespace planb::testing {

struct UpdateReading : UpdateSink {
  absl::Status OnUpdate(const UpdateEvent& event) override {
    events.push_back(event);
    return absl::OkStatus();
  }

  // A line for each prefix, as in "1785420000.000000 AS1 192.0.2.1 A
  // 2001:db8::/32 2001:db8::1", "... W 10.0.0.0/8"; with " #7" for a path
  // identifier and " local" for what the collector said.
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (const UpdateEvent& event : events) {
      const int64_t micros = absl::ToUnixMicros(event.at);
      const std::string head =
          absl::StrFormat("%d.%06d AS%d %s", micros / 1000000, micros % 1000000,
                          event.peer.as_number, event.peer.address.ToString());
      const auto add = [&](absl::string_view kind, const NlriPrefix& nlri,
                           absl::string_view gateway) {
        lines.push_back(absl::StrCat(
            head, kind, nlri.prefix.ToString(), gateway,
            nlri.path_id != 0 ? absl::StrCat(" #", nlri.path_id) : "",
            event.local ? " local" : ""));
      };
      for (const NlriPrefix& nlri : event.update.withdraws) {
        add(" W ", nlri, "");
      }
      for (const BgpAnnounce& announce : event.update.announces) {
        add(" A ", announce.nlri,
            absl::StrCat(" ", announce.gateway.ToString()));
      }
    }
    return lines;
  }

  absl::Status status;
  BgpUpdatesReport report;
  std::vector<UpdateEvent> events;
};

inline UpdateReading ReadUpdates(std::string octets, bool strict = false,
                                 size_t piece = SIZE_MAX) {
  UpdateReading reading;
  absl::StatusOr<BgpUpdatesReport> report = ReadBgpUpdates(
      "F", StringSource(std::move(octets), piece), {.strict = strict}, reading);
  reading.status = report.status();
  if (report.ok()) reading.report = *report;
  return reading;
}

}  // namespace planb::testing

#endif  // PLANB_LPM_IO_TESTING_UPDATE_READ_H_
