// SPDX-License-Identifier: Apache-2.0

// /statusz: the server's state as JSON, and the HTML page that shows it. The
// page is the static file statusz.html. It reads /statusz.json each second.

#ifndef PLANB_SERVER_OBSERVE_STATUSZ_H_
#define PLANB_SERVER_OBSERVE_STATUSZ_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "prometheus/metric_family.h"
#include "server/table/rebuild_log.h"
#include "statusz.pb.h"

namespace planb::server {

// Adds the facts of the process, the lookups, the errors and the store, all
// from the exported metrics: what is shown is what is measured.
void AddMetrics(const std::vector<prometheus::MetricFamily>& metrics,
                statusz::ServerState& state);

void AddRebuild(const RebuildRecord& rebuild, statusz::ServerState& state);

// Adds the flags that planb_server defines, by name. The values of those that
// look like secrets are left out.
void AddFlags(statusz::ServerState& state);

// Sorts the errors, and prints all fields. Bytes that are no UTF-8 become
// U+FFFD.
std::string ToJson(statusz::ServerState state);

// The page.
absl::string_view StatuszHtml();

// The Content-Security-Policy of the page, besides default-src 'none': its own
// style and script, by their hashes, and requests to its own server.
std::string StatuszSources();

}  // namespace planb::server

#endif  // PLANB_SERVER_OBSERVE_STATUSZ_H_
