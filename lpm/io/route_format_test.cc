#include "lpm/io/route_format.h"

#include <gtest/gtest.h>

#include <string>

#include "lpm/io/table_file.h"
#include "lpm/io/testing/bytes.h"

namespace planb {
namespace {

using ::planb::testing::Mrt;

TEST(DetectRouteFormat, KnowsText) {
  for (const char* head :
       {"", "\n", "# only a comment", "2001:db8::/32 1\n",
        "  192.0.2.0/24\t1\r\n", "::/0 1",
        "a heading\n\n::/0 1\n",  // will be counted as malformed
        "# caf\xc3\xa9\n::/0 1\n",
        // Cut in its first line.
        "2001:d", "1", "2001:db8::/32"}) {
    EXPECT_EQ(DetectRouteFormat(head), RouteFormat::kText) << head;
  }
  // A probe that ends inside a line.
  EXPECT_EQ(DetectRouteFormat(std::string(kFormatProbe, '1')),
            RouteFormat::kText);
  EXPECT_EQ(DetectRouteFormat(std::string(kFormatProbe, '#')),
            RouteFormat::kText);
}

TEST(DetectRouteFormat, KnowsMrt) {
  EXPECT_EQ(DetectRouteFormat(Mrt(13, 1, "abc")), RouteFormat::kMrt);
  EXPECT_EQ(DetectRouteFormat(Mrt(16, 4, "abc").substr(0, 6)),
            RouteFormat::kMrt);
}

TEST(DetectRouteFormat, KnowsTableFiles) {
  const std::string magic(kTableFileMagic);
  EXPECT_EQ(DetectRouteFormat(magic), RouteFormat::kTableFile);
  EXPECT_EQ(DetectRouteFormat(magic + "::/0 1\n"), RouteFormat::kTableFile);
  EXPECT_EQ(DetectRouteFormat(magic.substr(0, 7)), RouteFormat::kUnknown);
  EXPECT_EQ(DetectRouteFormat("x" + magic), RouteFormat::kUnknown);
}

TEST(DetectRouteFormat, KnowsWhatIsNeither) {
  for (const std::string& head :
       {std::string("{\"prefix\": \"2001:db8::/32\"}\n"),
        std::string("<html>\n</html>\n"), std::string("prefix,nexthop\n"),
        std::string("hello"), std::string("dead beef\n"),
        std::string("#!/bin/sh\nexit 0\n"),
        std::string("\x7f"
                    "ELF"),
        std::string("::/0 1\n\0", 8), std::string("\0\0\0", 3),
        std::string("\xff\xfe:\0:\0", 6), Mrt(14, 1, "abc"),
        Mrt(13, 1, "abc").substr(0, 5)}) {
    EXPECT_EQ(DetectRouteFormat(head), RouteFormat::kUnknown) << head;
  }
}

}  // namespace
}  // namespace planb
