#include "lpm/io/xxh3.h"

#include <gtest/gtest.h>

#include <string>

namespace planb {
namespace {

// As published with the algorithm: what a file holds must not change with a
// version of the library.
TEST(Xxh3, IsTheOneOfTheSpecification) {
  EXPECT_EQ(Xxh3("", 0), 0x2d06800538d394c2u);
  EXPECT_NE(Xxh3("", 1), Xxh3("", 0));
}

TEST(Xxh3, OfAStreamIsThatOfTheWhole) {
  std::string octets;
  for (int i = 0; i < 3000; ++i) octets += static_cast<char>(i * i);
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{1000}}) {
    Xxh3Stream stream;
    EXPECT_EQ(stream.Value(), Xxh3("", 0));
    for (size_t at = 0; at < octets.size(); at += piece) {
      stream.Add(absl::string_view(octets).substr(at, piece));
    }
    EXPECT_EQ(stream.Value(), Xxh3(octets, 0)) << piece;
  }
}

}  // namespace
}  // namespace planb
