// The same update files read here and by bgpdump (Debian's package), where it
// is installed: every prefix, peer, time and next hop.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "lpm/io/testing/bgp_bytes.h"
#include "lpm/io/testing/bytes.h"
#include "lpm/io/testing/update_read.h"

namespace planb {
namespace {

using testing::Announce6;
using testing::AsPath;
using testing::Heard;
using testing::HeardAt;
using testing::kMessage;
using testing::Mrt;
using testing::NextHop4;
using testing::Nlri;
using testing::Origin;
using testing::ReadUpdates;
using testing::SessionBody;
using testing::Update;
using testing::UpdateReading;
using testing::Withdraw6;

bool HasBgpdump() { return system("command -v bgpdump > /dev/null 2>&1") == 0; }

// Its lines of updates, in the form of UpdateReading::Lines():
//   BGP4MP|TIME|A|PEER|AS|PREFIX|AS PATH|ORIGIN|NEXT HOP|...
//   BGP4MP_ET|TIME|W|PEER|AS|PREFIX
std::vector<std::string> Bgpdump(const std::string& path) {
  std::vector<std::string> lines;
  FILE* const pipe =
      popen(absl::StrCat("bgpdump -m '", path, "' 2> /dev/null").c_str(), "r");
  std::string output;
  char buffer[4096];
  while (const size_t size = fread(buffer, 1, sizeof(buffer), pipe)) {
    output.append(buffer, size);
  }
  EXPECT_EQ(pclose(pipe), 0);
  for (absl::string_view line :
       absl::StrSplit(output, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> fields = absl::StrSplit(line, '|');
    if (fields.size() < 6 || (fields[2] != "A" && fields[2] != "W")) continue;
    const std::pair<std::string, std::string> time =
        absl::StrSplit(fields[1], absl::MaxSplits('.', 1));
    uint64_t micros = 0;
    EXPECT_TRUE(time.second.empty() || absl::SimpleAtoi(time.second, &micros));
    lines.push_back(absl::StrFormat(
        "%s.%06d AS%s %s %s %s%s", time.first, micros, fields[4], fields[3],
        fields[2], fields[5], fields[2] == "A" ? " " + fields[8] : ""));
  }
  return lines;
}

// An update says nothing of the order of its prefixes, and bgpdump has another.
std::vector<std::string> Sorted(std::vector<std::string> lines) {
  std::sort(lines.begin(), lines.end());
  return lines;
}

// Messages of both families and types, always the same ones.
class Messages {
 public:
  std::string Next() {
    const std::string peer = Below(2) == 0 ? Address4() : Address6();
    const uint32_t as_number = 1 + Below(65000);
    std::string attributes;
    std::string withdrawn, nlri;
    const bool has6 = Below(3) > 0;
    if (has6) {
      if (Below(2) == 0) attributes += Withdraw6(List6());
      attributes += Announce6(Address6(), List6());
    } else {
      withdrawn = List4();
      nlri = List4();
    }
    attributes += Origin(0) + AsPath({as_number, 64999});
    if (!has6) attributes += NextHop4(Address4());
    const std::string update = Update(withdrawn, attributes, nlri);
    switch (Below(3)) {
      case 0:
        return Heard(peer, as_number, update);
      case 1:
        return HeardAt(1785420000 + Below(1000), Below(1000000), peer,
                       as_number, update);
      default:
        return Mrt(16, kMessage,
                   SessionBody(peer, as_number, Update(List4(), "", ""),
                               /*narrow_as=*/true));
    }
  }

 private:
  uint32_t Below(uint32_t bound) {
    return static_cast<uint32_t>(random_() % bound);
  }
  std::string Address4() {
    return absl::StrCat("10.", Below(256), ".", Below(256), ".", 1 + Below(9));
  }
  std::string Address6() {
    return absl::StrFormat("2001:db8:%x::%x", 1 + Below(9999), 1 + Below(9999));
  }
  std::string List4() {
    std::string list;
    for (uint32_t i = 1 + Below(4); i > 0; --i) {
      list += Nlri(Prefix::Truncate(*Address::Parse(Address4()),
                                    static_cast<int>(Below(33)))
                       .ToString());
    }
    return list;
  }
  std::string List6() {
    std::string list;
    for (uint32_t i = 1 + Below(4); i > 0; --i) {
      list += Nlri(Prefix::Truncate(*Address::Parse(Address6()),
                                    static_cast<int>(Below(129)))
                       .ToString());
    }
    return list;
  }

  std::mt19937_64 random_{4};
};

TEST(Bgpdump, SaysTheSameOfRandomUpdates) {
  if (!HasBgpdump()) GTEST_SKIP() << "bgpdump is not installed";
  Messages messages;
  std::string file;
  for (int i = 0; i < 500; ++i) file += messages.Next();
  const std::string path = ::testing::TempDir() + "/random_updates.mrt";
  std::ofstream(path, std::ios::binary) << file;
  const UpdateReading reading = ReadUpdates(file, /*strict=*/true);
  ASSERT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_GT(reading.report.announced, 500u);
  EXPECT_GT(reading.report.withdrawn, 500u);
  EXPECT_EQ(Sorted(Bgpdump(path)), Sorted(reading.Lines()));
}

TEST(Bgpdump, SaysTheSameOfWhatBirdWrote) {
  if (!HasBgpdump()) GTEST_SKIP() << "bgpdump is not installed";
  const std::string path = "lpm/io/testdata/bird_updates.mrt";
  UpdateReading reading;
  ASSERT_TRUE(ReadBgpUpdates(path, {.strict = true}, reading).ok());
  EXPECT_EQ(Sorted(Bgpdump(path)), Sorted(reading.Lines()));
}

// Files of recorded updates, should there be any beside the real tables.
TEST(Bgpdump, SaysTheSameOfRecordedUpdates) {
  if (!HasBgpdump()) GTEST_SKIP() << "bgpdump is not installed";
  const char* const folder = getenv("PLANB_DATA_DIR");
  int files = 0;
  std::error_code none;
  for (const auto& file : std::filesystem::directory_iterator(
           folder != nullptr ? folder : "../shared/data", none)) {
    const std::string path = file.path();
    if (!absl::StrContains(path, "updates")) continue;
    SCOPED_TRACE(path);
    ++files;
    UpdateReading reading;
    const auto report = ReadBgpUpdates(path, {}, reading);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->malformed, 0u);
    EXPECT_GT(report->updates, 0u);
    // bgpdump shows no path identifiers and not who said what.
    EXPECT_EQ(Sorted(Bgpdump(path)), Sorted(reading.Lines()));
  }
  if (files == 0) GTEST_SKIP() << "no *updates* file in PLANB_DATA_DIR";
}

}  // namespace
}  // namespace planb
