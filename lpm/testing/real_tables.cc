// SPDX-License-Identifier: Apache-2.0

#include "lpm/testing/real_tables.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace planb {

std::string RealTablePath(Family family) {
  const char* const directory = std::getenv("PLANB_DATA_DIR");
  if (directory == nullptr) return "";
  const std::string path =
      absl::StrCat(directory, family == Family::kIpv4 ? "/rv4_20260730.txt.gz"
                                                      : "/rv6_20260730.txt");
  return access(path.c_str(), R_OK) == 0 ? path : "";
}

absl::StatusOr<std::vector<Route>> ReadPlainTable(const std::string& path) {
  // zlib reads what is not gzipped as it is.
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(
      gzopen(path.c_str(), "rb"), gzclose);
  if (file == nullptr) {
    return absl::NotFoundError(absl::StrCat("cannot open ", path));
  }
  std::vector<Route> routes;
  std::array<char, 256> buffer;
  while (gzgets(file.get(), buffer.data(), buffer.size()) != nullptr) {
    const absl::string_view line = absl::StripAsciiWhitespace(buffer.data());
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    const auto prefix = Prefix::Parse(fields[0]);
    NextHopId next_hop = kNoRoute;
    if (fields.size() != 2 || !prefix.ok() ||
        !absl::SimpleAtoi(fields[1], &next_hop) || next_hop == kNoRoute) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " line ", routes.size() + 1, ": \"", line, "\""));
    }
    routes.push_back({*prefix, next_hop});
  }
  int error = Z_OK;
  const char* const message = gzerror(file.get(), &error);
  if (error != Z_OK && error != Z_STREAM_END) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", message));
  }
  std::sort(routes.begin(), routes.end());
  return routes;
}

}  // namespace planb
