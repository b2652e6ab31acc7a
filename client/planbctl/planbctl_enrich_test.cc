// SPDX-License-Identifier: Apache-2.0

// planbctl enrich with the real server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/testing/planbctl_fixture.h"
#include "client/testing/real_server_fixture.h"

namespace planb::client {
namespace {

using testing::Do;
using testing::Fails;
using ::testing::HasSubstr;
using testing::Scratch;
using testing::Slurp;
using testing::Write;

class PlanbctlEnrichTest : public testing::RealServerFixture {
 protected:
  void SetUp() override {
    RealServerFixture::SetUp();
    Do("load " + Write("table",
                       "10.0.0.0/8 1\n2001:db8::/32 2\n2001:db8:1::/48 7\n"
                       "192.0.2.0/24 9\n"));
    Do("nexthop set 1 --gateway=192.0.2.1 --interface=eth0 --label=plain");
    Do("nexthop set 2 --gateway=fe80::1 --interface=eth0 "
       "--label='a \"b\", c'");
    Do("group set 7 1 2 --label=both");
  }
};

TEST_F(PlanbctlEnrichTest, AddsFieldsToCsvAndKeepsItsBytes) {
  EXPECT_EQ(Do("enrich --columns=src,dst",
               "\xef\xbb\xbfsrc,note,dst\r\n"
               "10.0.0.1,\"x, \"\"y\"\"\nz\",2001:db8::1\r\n"
               "\"2001:db8:1::1\",,\n"
               "11.0.0.1,\"\",192.0.2.7"),
            "\xef\xbb\xbfsrc,note,dst,src_next_hop,src_gateway,src_interface,"
            "src_label,dst_next_hop,dst_gateway,dst_interface,dst_label\r\n"
            "10.0.0.1,\"x, \"\"y\"\"\nz\",2001:db8::1,1,192.0.2.1,eth0,plain,"
            "2,fe80::1,eth0,\"a \"\"b\"\", c\"\r\n"
            "\"2001:db8:1::1\",,,7,,eth0,both,,,,\n"
            "11.0.0.1,\"\",192.0.2.7,0,,,,9,,,");
  EXPECT_EQ(Do("enrich --columns=a --add=prefix_length,next_hop",
               "a\n10.0.0.1\n2001:db8:1::1\n11.0.0.1\n\n"),
            "a,a_next_hop,a_prefix_length\n10.0.0.1,1,8\n2001:db8:1::1,7,48\n"
            "11.0.0.1,0,\n,,\n");
  EXPECT_EQ(Do("enrich --columns=a --add=next_hop",
               "\xef\xbb\xbf\"a,b\",a\n,10.0.0.1\n"),
            "\xef\xbb\xbf\"a,b\",a,a_next_hop\n,10.0.0.1,1\n");
  const std::string file = Write("flows", "a\n10.0.0.1\n");
  EXPECT_EQ(Do("enrich --columns=a --add=label " + file),
            "a,a_label\n10.0.0.1,plain\n");
  EXPECT_EQ(Do("enrich --columns=a", ""), "");
}

TEST_F(PlanbctlEnrichTest, AddsMembersToJsonLinesAndKeepsTheirBytes) {
  EXPECT_EQ(
      Do("enrich --columns=src,dst "
         "--add=next_hop,gateway,label,prefix_length",
         " {\"src\": \"10.0.0.1\",\"n\":1e3,\"dst\":\"2001:db8::1\"} \r\n"
         "\n"
         "{ }\n"
         "{\"dst\":\"11.0.0.1\",\"src\":null,\"x\":{\"src\":\"10.0.0.1\"}}\n"
         "{\"sr\":1,\"dst\":\"10.0.0.1\",\"v\":\"dst_next_hop\"}"),
      " {\"src\": \"10.0.0.1\",\"n\":1e3,\"dst\":\"2001:db8::1\","
      "\"src_next_hop\":1,\"src_gateway\":\"192.0.2.1\",\"src_label\":"
      "\"plain\","
      "\"src_prefix_length\":8,\"dst_next_hop\":2,\"dst_gateway\":\"fe80::1\","
      "\"dst_label\":\"a \\\"b\\\", c\",\"dst_prefix_length\":32} \r\n"
      "\n"
      "{ }\n"
      "{\"dst\":\"11.0.0.1\",\"src\":null,\"x\":{\"src\":\"10.0.0.1\"},"
      "\"dst_next_hop\":0}\n"
      "{\"sr\":1,\"dst\":\"10.0.0.1\",\"v\":\"dst_next_hop\","
      "\"dst_next_hop\":1,\"dst_gateway\":\"192.0.2.1\",\"dst_label\":"
      "\"plain\","
      "\"dst_prefix_length\":8}");
}

// JSON may have an escape for any character, and any value anywhere.
TEST_F(PlanbctlEnrichTest, ReadsMembersAsJsonHasThem) {
  Do("table create red");
  Do("--table=red announce 10.0.0.0/8 5");
  const std::string enrich = "enrich --columns=src,d/st --add=next_hop ";
  const auto line = [](const std::string& members, const std::string& added) {
    return std::pair(absl::StrCat("{", members, "}\n"),
                     absl::StrCat("{", members, added, "}\n"));
  };
  std::string input, expected;
  for (const auto& [in, out] : {
           line(R"("s\u0072c":"10.0.0.1")", R"(,"src_next_hop":1)"),
           line(R"("s\u0072\u0063":"1\u0030.0.0.1","d\/st":"::")",
                R"(,"src_next_hop":1,"d/st_next_hop":0)"),
           // Of two the last counts, as for most readers.
           line(R"("src":"10.0.0.1","s\u0072c":"192.0.2.1")",
                R"(,"src_next_hop":9)"),
           line(R"("src":"10.0.0.1","src":null)", ""),
           line(R"("src":{"src":[1,"}"]},"src":"10.0.0.1")",
                R"(,"src_next_hop":1)"),
           // Not what is in strings, or further in.
           line(R"("a":"\"","b":"\\","c":"\\\"src\":","src":"10.0.0.1")",
                R"(,"src_next_hop":1)"),
           line(R"("a":[{"src":"192.0.2.1"},"]",{}],"b":{"src_next_hop":4})",
                ""),
           line(R"( "src" : "10.0.0.1" , "a" : [ ] )", R"(,"src_next_hop":1)"),
       }) {
    input += in;
    expected += out;
  }
  EXPECT_EQ(Do(enrich, input), expected);
  for (const std::string members : {
           R"("src":"10.1.2.3\u0000")",
           R"("src":"10.1.2.3","src":"10.1.2.3\u0000x")",
           R"("src":"\ud800")",
           R"("src":["10.1.2.3"])",
           R"("src":10)",
           R"("src":"10.1.2.3","src\u005fnext_hop":1)",
           R"("src":"10.1.2.3",)",
           R"("src":"10.1.2.3","x":01)",
           R"("src":"10.1.2.3","x":[1})",
           R"("src":"10.1.2.3","x":18446744073709551616)",
           R"("src":"10.1.2.3","x":1e400)",
           R"("src":"10.1.2.3","x":"\udc00")",
           "\"src\":\"10.1.2.3\",\"x\":\"\xff\"",
       }) {
    EXPECT_EQ(Fails(1, enrich, "1 malformed records passed",
                    absl::StrCat("{", members, "}\n")),
              absl::StrCat("{", members, "}\n"));
  }
  Fails(1, enrich, "NUL character", R"({"src":"10.1.2.3\u0000"})");
  Fails(1, enrich, "object: The input is not valid UTF-8",
        "{\"src\":\"\xff\"}");
  EXPECT_EQ(Do("enrich --columns=b --add=next_hop --table_column=b "
               "--tables=10.0.0.1=red",
               R"({"b":"10.0.0.1"})"),
            R"({"b":"10.0.0.1","b_next_hop":5})");
  // An integer as well chooses the table; other numbers have several forms.
  const std::string by =
      "enrich --columns=b --add=next_hop --table_column=by "
      "--tables=10=red,0.1=red,100=red,1e2=red";
  EXPECT_EQ(Do(by, R"({"b":"10.0.0.1","by":10})"),
            R"({"b":"10.0.0.1","by":10,"b_next_hop":5})");
  for (const std::string record :
       {R"({"b":"10.0.0.1","by":0.10})", R"({"b":"10.0.0.1","by":1e2})",
        R"({"b":"10.0.0.1","by":[10]})"}) {
    EXPECT_EQ(Fails(1, by, "by: neither text nor an integer", record), record);
  }
}

// An IPv6 route would send what is IPv4 elsewhere.
TEST_F(PlanbctlEnrichTest, LooksUpMappedAddressesAsIpv4) {
  Do("announce ::/0 4 ::ffff:10.0.0.0/104 4");
  const std::string enrich = "enrich --columns=a --add=next_hop,prefix_length ";
  EXPECT_EQ(Do(enrich, "a\n::ffff:10.0.0.1\n::FFFF:a00:1\n::ffff:11.0.0.1\n"),
            "a,a_next_hop,a_prefix_length\n::ffff:10.0.0.1,1,8\n"
            "::FFFF:a00:1,1,8\n::ffff:11.0.0.1,0,\n");
  EXPECT_EQ(Do(enrich, R"({"a":"::ffff:10.0.0.1"})"),
            R"({"a":"::ffff:10.0.0.1","a_next_hop":1,"a_prefix_length":8})");
  Do("table create red");
  Do("--table=red announce 10.0.0.0/8 5");
  EXPECT_EQ(Do("enrich --columns=a --add=next_hop --table_column=by "
               "--tables=192.0.2.1=red",
               "by,a\n::ffff:192.0.2.1,10.0.0.1\n"),
            "by,a,a_next_hop\n::ffff:192.0.2.1,10.0.0.1,5\n");
  for (const char* words : {"lookup --describe=false ::ffff:10.0.0.1",
                            "lookup --describe=false -"}) {
    EXPECT_EQ(Do(words, "::ffff:10.0.0.1\n"),
              Do("lookup --describe=false 10.0.0.1"));
  }
  EXPECT_EQ(Do("routes explain ::ffff:10.0.0.1"),
            Do("routes explain 10.0.0.1"));
  // No other address of IPv6 has one of IPv4 in it.
  EXPECT_EQ(Do(enrich,
               "a\n::10.0.0.1\n::fffe:a00:1\n::ffff:0:a00:1\n"
               "::1:ffff:a00:1\n8000::ffff:a00:1\n"
               "64:ff9b::10.0.0.1\n"),
            "a,a_next_hop,a_prefix_length\n::10.0.0.1,4,0\n"
            "::fffe:a00:1,4,0\n::ffff:0:a00:1,4,0\n::1:ffff:a00:1,4,0\n"
            "8000::ffff:a00:1,4,0\n64:ff9b::10.0.0.1,4,0\n");
}

TEST_F(PlanbctlEnrichTest, AddsWhatRoutesMean) {
  Do("nexthop set 1 --origin_as=64496 --as_path='64500 {64496,64497}' "
     "--communities=64500:1,64500:2");
  Do("nexthop set 3 --origin_as=64496 --as_path=64501");
  Do("group set 7 1 3");
  const std::string flags =
      "enrich --columns=a --add=origin_as,as_path,communities";
  EXPECT_EQ(Do(flags, "a\n10.0.0.1\n2001:db8:1::1\n2001:db8::1\n"),
            "a,a_origin_as,a_as_path,a_communities\n"
            "10.0.0.1,64496,\"64500 {64496,64497}\",64500:1 64500:2\n"
            "2001:db8:1::1,64496,,\n2001:db8::1,,,\n");
  EXPECT_EQ(Do(flags, "{\"a\":\"10.0.0.1\"}\n{\"a\":\"2001:db8::1\"}\n"),
            "{\"a\":\"10.0.0.1\",\"a_origin_as\":64496,"
            "\"a_as_path\":\"64500 {64496,64497}\","
            "\"a_communities\":\"64500:1 64500:2\"}\n"
            "{\"a\":\"2001:db8::1\"}\n");
}

TEST_F(PlanbctlEnrichTest, ChoosesTheTableByAColumn) {
  Do("table create red");
  Do("--table=red announce 10.0.0.0/8 5 2001:db8::/32 6");
  const std::string flags =
      "enrich --add=next_hop --columns=a --table_column=by "
      "--tables=2001:db8::9=red,edge=red,192.0.2.1=default ";
  EXPECT_EQ(Do(flags,
               "by,a\n192.0.2.1,10.0.0.1\n2001:DB8:0::9,10.0.0.1\n"
               "\"edge\",2001:db8::1\nother,10.0.0.1\n,10.0.0.1\n"),
            "by,a,a_next_hop\n192.0.2.1,10.0.0.1,1\n2001:DB8:0::9,10.0.0.1,5\n"
            "\"edge\",2001:db8::1,6\nother,10.0.0.1,1\n,10.0.0.1,1\n");
  EXPECT_EQ(Do(flags + "--table=red", "{\"by\":\"x\",\"a\":\"10.0.0.1\"}\n"),
            "{\"by\":\"x\",\"a\":\"10.0.0.1\",\"a_next_hop\":5}\n");
  Fails(3, flags + "--table=none", "TABLE_NOT_FOUND");
}

TEST_F(PlanbctlEnrichTest, FollowsATableOnceByEachOfItsNames) {
  Kill();
  Start("none", Write("routes", "10.0.0.0/8 1\n"), {"--max_watchers=1"});
  EXPECT_EQ(Do("enrich --columns=a --add=next_hop --table_column=by "
               "--tables=x=default",
               "by,a\nx,10.0.0.1\ny,10.0.0.1\n"),
            "by,a,a_next_hop\nx,10.0.0.1,1\ny,10.0.0.1,1\n");
}

TEST_F(PlanbctlEnrichTest, PassesMalformedRecordsOrNamesTheLine) {
  const std::string enrich = "enrich --columns=a --add=next_hop,label ";
  const std::string csv =
      "a,b\n10.0.0.1,\"\n\"\n10.0.0.1\n10.0.0.1,\"x\"y\n1.2.3,ok\n"
      "10.0.0.1,z\n10.0.0.1,\"open\n10.0.0.1,z\n";
  EXPECT_EQ(Fails(1, enrich,
                  "4 malformed records passed, the first at line 4: "
                  "1 fields, the header has 2",
                  csv),
            "a,b,a_next_hop,a_label\n10.0.0.1,\"\n\",1,plain\n10.0.0.1\n"
            "10.0.0.1,\"x\"y\n1.2.3,ok,,\n10.0.0.1,z,1,plain\n"
            "10.0.0.1,\"open\n10.0.0.1,z\n");
  EXPECT_EQ(Fails(2, enrich + "--strict", "line 4: 1 fields", csv), "");
  const std::string json =
      "{\"a\":\"10.0.0.1\"}\n{\"a\":\"10.0.0.1\"\n[1]\n"
      "{\"a\":\"x\"}\n{\"a\":\"10.0.0.1\",\"a_label\" : 1}\n{\"a\":\"\\q\"}\n";
  EXPECT_EQ(
      Fails(1, enrich, "5 malformed records passed, the first at line 2", json),
      "{\"a\":\"10.0.0.1\",\"a_next_hop\":1,\"a_label\":\"plain\"}\n" +
          json.substr(json.find('\n') + 1));
  Fails(2, enrich + "--strict",
        "line 2: the line cannot be read as a JSON object", json);
}

// As CSV names a column that its header has not.
TEST_F(PlanbctlEnrichTest, NamesMembersThatNoJsonObjectHas) {
  const std::string json = "{\"a\":\"10.0.0.1\",\"b\":null}\n{\"a\":1}\n";
  const std::string enrich = "enrich --add=next_hop --columns=";
  EXPECT_EQ(Fails(1, enrich + "b", "no record has a value of \"b\"\n", json),
            json);
  Do(enrich + "a,b", "{\"a\":\"10.0.0.1\"}\n{\"b\":\"10.0.0.1\"}\n");
  // Else the table by --table would be taken for the wanted one.
  Fails(1, enrich + "a --table_column=by --tables=x=default",
        "no record has a value of \"by\"\n", "{\"a\":\"10.0.0.1\"}\n");
  Fails(1, enrich + "c", "1 malformed records passed", "{\n");
}

TEST_F(PlanbctlEnrichTest, BoundsARecord) {
  const std::string long_field(900'000, 'x');
  EXPECT_EQ(Do("enrich --columns=a --add=label",
               absl::StrCat("a,b\n10.0.0.1,", long_field, "\n")),
            absl::StrCat("a,b,a_label\n10.0.0.1,", long_field, ",plain\n"));
  Fails(2, "enrich --columns=a", "line 2: the record is longer than 1 MiB",
        absl::StrCat("a,b\n10.0.0.1,\"", long_field, long_field, "\"\n"));
  Fails(2, "enrich --columns=a", "line 1: the record is longer than 1 MiB",
        absl::StrCat("{\"a\":\"", long_field, long_field, "\"}\n"));
}

TEST_F(PlanbctlEnrichTest, RefusesWhatItCannotDo) {
  for (const auto& [words, why] :
       std::vector<std::pair<std::string, std::string>>{
           {"", "--columns"},
           {"--columns=a --add=asn", "there is no \"asn\""},
           {"--columns=a --add=", "--add is empty"},
           {"--columns=a,a", "added twice"},
           {"--columns=a --add=label,label", "added twice"},
           {"--columns=a --tables=x=y", "need each other"},
           {"--columns=a --table_column=x", "need each other"},
           {"--columns=a --table_column=x --tables=y", "VALUE=TABLE"},
           {"--columns=a --table_column=x --tables=y=b,y=c",
            "\"y\" is there twice"},
           {"--columns=a --table_column=x "
            "--tables=192.0.2.9=b,::ffff:c000:209=c",
            "\"::ffff:c000:209\" is there twice"},
           {"--columns=a,a_next_hop --add=next_hop",
            "\"a_next_hop\" would be added, and is one of --columns"},
           {"--columns=c", "no column \"c\" among a, b"},
           {"--columns=a --table_column=x --tables=y=default",
            "no column \"x\""},
           {"--columns=a /", "cannot read the input: Is a directory"},
           {"--columns=a /nonexistent", "No such file"}}) {
    Fails(2, "enrich " + words, why, "a,b\n");
  }
  Fails(2, "enrich --columns=a", "column \"a_label\" already", "a,a_label\n");
  for (const char* header : {"a,\"b\n10.0.0.1,x\n", "a,\"b\"c\n"}) {
    EXPECT_EQ(Fails(2, "enrich --columns=a",
                    "line 1: quotes are not as in RFC 4180", header),
              "");
  }
}

TEST_F(PlanbctlEnrichTest, WritesWhatItReadBeforeItWaitsAndFollowsTheTable) {
  const std::string out = Scratch("dialogue");
  EXPECT_EQ(system(absl::StrCat(
                       "bash -c 'ctl=client/planbctl/planbctl\n"
                       "coproc $ctl enrich --columns=a --add=next_hop,label\n"
                       "echo a >&${COPROC[1]}\n"
                       "read -t 20 -r line <&${COPROC[0]} || exit 1\n"
                       "for i in 3 4; do\n"
                       "  $ctl nexthop set $i --label=new$i >/dev/null &&\n"
                       "  $ctl announce 10.0.0.0/8 $i >/dev/null || exit 1\n"
                       "  for try in {1..200}; do\n"
                       "    echo 10.0.0.1 >&${COPROC[1]}\n"
                       "    read -t 20 -r line <&${COPROC[0]} || exit 1\n"
                       "    [[ $line == *new$i ]] && break\n"
                       "    sleep 0.05\n"
                       "  done\n"
                       "  echo \"$line\"\n"
                       "done' > ",
                       out)
                       .c_str()),
            0);
  EXPECT_EQ(Slurp(out), "10.0.0.1,3,new3\n10.0.0.1,4,new4\n");
}

// Quotes, commas and ends of lines wherever RFC 4180 allows them.
TEST_F(PlanbctlEnrichTest, KeepsAnyCsv) {
  std::mt19937 random(1);
  std::string input = "x,a,y\n", expected = "x,a,y,a_next_hop\n";
  const auto field = [&] {
    std::string text;
    const bool quoted = random() % 2 == 0;
    if (quoted) text = "\"";
    for (auto left = random() % 8; left > 0; --left) {
      static const std::vector<std::string> kParts = {"\"\"", ",", "\n", "\r\n",
                                                      "\r",   "b", " "};
      text += quoted ? kParts[random() % kParts.size()] : "b c";
    }
    if (quoted) text += '"';
    return text;
  };
  for (int i = 0; i < 20'000; ++i) {
    const bool routed = random() % 2 == 0;
    std::string address = routed ? "10.1.2.3" : "2001:db8:1::7";
    if (random() % 3 == 0) address = absl::StrCat("\"", address, "\"");
    const std::string record =
        absl::StrCat(field(), ",", address, ",", field());
    const char* const end = random() % 2 == 0 ? "\n" : "\r\n";
    absl::StrAppend(&input, record, end);
    absl::StrAppend(&expected, record, routed ? ",1" : ",7", end);
  }
  EXPECT_TRUE(Do("enrich --columns=a --add=next_hop", input) == expected);
}

}  // namespace
}  // namespace planb::client
