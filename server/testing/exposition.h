// SPDX-License-Identifier: Apache-2.0

// A scrape in Prometheus' text format, taken apart; and taking one.

#ifndef PLANB_SERVER_TESTING_EXPOSITION_H_
#define PLANB_SERVER_TESTING_EXPOSITION_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace planb::server {

// One family. Values are of samples in the order of the text; those of a
// histogram's buckets are among them, its `le` is not among the labels.
struct ScrapedFamily {
  std::string help;
  std::string type;
  std::map<std::string, std::set<std::string>> labels;  // to their values
  std::vector<double> values;
};

// By name. What it cannot read fails the test.
std::map<std::string, ScrapedFamily> ParseExposition(absl::string_view text);

// The body of GET /metrics from that port of this host. "" fails the test.
std::string ScrapePort(int port);

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_EXPOSITION_H_
