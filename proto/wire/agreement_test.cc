// SPDX-License-Identifier: Apache-2.0

// The parsers of proto/wire agree with the generated ones on all short messages
// and on many random ones, in pieces of any sizes.

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "proto/wire/testing/made_up_messages.h"
#include "proto/wire/testing/readings.h"

namespace planb::wire {
namespace {

class Agreement : public testing::TestWithParam<Kind> {
 protected:
  void Check(const std::string& message,
             const std::vector<std::vector<size_t>>& cuts) {
    const std::string expected = GetParam().generated(message);
    ++(expected == kRefused ? refused_ : accepted_);
    for (const std::vector<size_t>& places : cuts) {
      const CutMessage cut(message, places);
      ASSERT_EQ(GetParam().by_hand(cut.pieces()), expected)
          << absl::CHexEscape(message) << " cut at "
          << absl::StrJoin(places, " ");
    }
  }

  // All strings of `length` bytes from `alphabet`, whole and cut once.
  void CheckAll(const std::string& alphabet, size_t length) {
    size_t checked = 0;
    ForAllStrings(alphabet, length, [&](const std::string& message) {
      if (HasFatalFailure()) return;
      Check(message, {{}, {checked++ % (length + 1)}});
    });
  }

  // Agreement says little if one kind of message is rare.
  void ExpectBoth(int accepted, int refused) {
    EXPECT_GE(accepted_, accepted);
    EXPECT_GE(refused_, refused);
  }

 private:
  int accepted_ = 0;
  int refused_ = 0;
};

std::vector<size_t> RandomCuts(size_t size, Random& random) {
  std::vector<size_t> cuts(Below(random, 5));
  for (size_t& cut : cuts) cut = Below(random, size + 1);
  return cuts;
}

TEST_P(Agreement, AllMessagesOfUpToTwoBytes) {
  Check("", {{}, {0, 0}});
  CheckAll(AllBytes(), 1);
  CheckAll(AllBytes(), 2);
  ExpectBoth(1000, 60'000);
}

// Every tag up to field 9, all types, and lengths and values among them.
TEST_P(Agreement, AllMessagesOfThreeBytes) {
  std::string alphabet = AllBytes().substr(0, 0x50) + "\x7f\x80\x81\xc3\xff";
  CheckAll(alphabet, 3);
  ExpectBoth(5000, 100'000);
}

// Small fields in each other and after each other.
TEST_P(Agreement, AllMessagesOfFiveBytes) {
  CheckAll(std::string("\0\x01\x02\x08\x0b\x0c\x12\x22\x2a\x80", 10), 5);
  ExpectBoth(1000, 10'000);
}

TEST_P(Agreement, EveryCutInTwoAndThree) {
  Random random(1);
  for (int i = 0; i < 12; ++i) {
    // Two of three are valid messages.
    std::string message;
    do {
      message = RandomMessage(random);
    } while (message.size() < 50 || message.size() > 120 ||
             (GetParam().generated(message) == kRefused) != (i % 3 == 0));
    std::vector<std::vector<size_t>> cuts = {{}};
    for (size_t first = 0; first <= message.size(); ++first) {
      cuts.push_back({first});
      for (size_t second = first; second <= message.size(); ++second) {
        cuts.push_back({first, second});
      }
    }
    Check(message, cuts);
  }
  ExpectBoth(8, 4);
}

TEST_P(Agreement, PiecesOfOneByte) {
  Random random(2);
  for (int i = 0; i < 500; ++i) {
    const std::string message = RandomMessage(random);
    std::vector<size_t> cuts;
    for (size_t at = 0; at <= message.size(); ++at) {
      cuts.push_back(at);
      if (OneIn(random, 4)) cuts.push_back(at);
    }
    Check(message, {cuts});
  }
  ExpectBoth(200, 10);
}

TEST_P(Agreement, RandomMessages) {
  Random random(3);
  for (int i = 0; i < 100'000; ++i) {
    const std::string message = RandomMessage(random);
    Check(message, {RandomCuts(message.size(), random)});
  }
  ExpectBoth(50'000, 1000);
}

TEST_P(Agreement, MutationsOfMessages) {
  Random random(4);
  for (int i = 0; i < 10'000; ++i) {
    const std::string message = RandomMessage(random);
    for (int k = 0; k < 30; ++k) {
      const std::string mutation = Mutation(message, random);
      Check(mutation, {RandomCuts(mutation.size(), random)});
    }
  }
  ExpectBoth(50'000, 50'000);
}

INSTANTIATE_TEST_SUITE_P(, Agreement, testing::ValuesIn(kKinds),
                         [](const testing::TestParamInfo<Kind>& kind) {
                           return kind.param.name;
                         });

}  // namespace
}  // namespace planb::wire
