// SPDX-License-Identifier: Apache-2.0

#include "server/testing/exposition.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/testing/http_get.h"

namespace planb::server {
namespace {

// A comment's first word and the rest.
std::pair<std::string, std::string> NameAndRest(absl::string_view text) {
  return absl::StrSplit(text, absl::MaxSplits(' ', 1));
}

// NAME="VALUE",... None of the values has an escape.
void ParseLabels(absl::string_view text, ScrapedFamily& family) {
  if (text.empty()) return;
  for (absl::string_view label : absl::StrSplit(text, "\",")) {
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(label, absl::MaxSplits("=\"", 1));
    EXPECT_FALSE(absl::StrContains(pair.second, "\\")) << text;
    if (pair.first == "le") continue;
    family.labels[pair.first].insert(
        std::string(absl::StripSuffix(pair.second, "\"")));
  }
}

void ParseSample(absl::string_view line, const std::string& name,
                 ScrapedFamily& family) {
  EXPECT_TRUE(absl::StartsWith(line, name)) << line << " is no " << name;
  const size_t value = line.rfind(' ');
  const size_t open = line.find('{');
  if (open < value) {
    ParseLabels(line.substr(open + 1, line.rfind('}') - open - 1), family);
  }
  double number = 0;
  EXPECT_TRUE(value != line.npos &&
              absl::SimpleAtod(line.substr(value + 1), &number))
      << line;
  family.values.push_back(number);
}

}  // namespace

std::map<std::string, ScrapedFamily> ParseExposition(absl::string_view text) {
  std::map<std::string, ScrapedFamily> families;
  std::string name;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (absl::ConsumePrefix(&line, "# HELP ")) {
      const auto [of, help] = NameAndRest(line);
      EXPECT_FALSE(families.contains(of)) << of << " comes twice";
      families[of].help = help;
    } else if (absl::ConsumePrefix(&line, "# TYPE ")) {
      const auto [of, type] = NameAndRest(line);
      families[of].type = type;
      name = of;
    } else {
      ParseSample(line, name, families[name]);
    }
  }
  return families;
}

std::string ScrapePort(int port) {
  const std::string reply = HttpGet(port, "/metrics");
  const size_t body = reply.find("\r\n\r\n");
  const bool good =
      absl::StartsWith(reply, "HTTP/1.1 200 ") && body != std::string::npos;
  EXPECT_TRUE(good) << "no /metrics: " << reply;
  return good ? reply.substr(body + 4) : "";
}

}  // namespace planb::server
