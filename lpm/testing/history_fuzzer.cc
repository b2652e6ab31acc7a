// SPDX-License-Identifier: Apache-2.0

// A fuzz target: any bytes, read as a history of a table. libFuzzer runs it
// (third_party/fuzz.sh); history_fuzzer_test.cc replays what libFuzzer found.
//
// The first byte chooses the family, and whether FIBs keep prefix lengths. Then
// come operations, each a byte with its operands, until the bytes end:
//   0, 1  announce PREFIX NEXT_HOP
//   2     withdraw PREFIX
//   3     end the batch: compile it, check it
//   4     look up the ADDRESS
//   5     end the batch, compile all from scratch
//   6     announce a row of COUNT prefixes from PREFIX on, with NEXT_HOP and,
//         by turns, the one after it
//   7     announce (or, where NEXT_HOP is odd, withdraw) all that cover PREFIX
// An ADDRESS is an earlier one, named by its number, with two bytes changed, so
// that the addresses of a history lie close to each other.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

constexpr size_t kMostRoutes = 160;

void CheckEmpty(const std::string& differences, const char* what) {
  if (differences.empty()) return;
  std::fprintf(stderr, "%s:\n%s", what, differences.c_str());
  std::abort();
}

// Reads operands; zeros after the end.
class Operands {
 public:
  explicit Operands(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}

  bool AtEnd() const { return bytes_.empty(); }
  uint8_t Byte() {
    if (bytes_.empty()) return 0;
    const uint8_t byte = bytes_.front();
    bytes_.remove_prefix(1);
    return byte;
  }
  NextHopId NextHop() {
    const uint8_t byte = Byte();
    if (byte < 0xf0) return byte + 1u;
    NextHopId next_hop = 0;
    for (int i = 0; i < 4; ++i) next_hop = next_hop << 8 | Byte();
    return IsNextHop(next_hop) ? next_hop : 1;
  }

 private:
  absl::Span<const uint8_t> bytes_;
};

class HistoryFuzzer {
 public:
  HistoryFuzzer(Family family, const FibOptions& options, Operands operands)
      : family_(family),
        operands_(operands),
        table_(family, {}, options),
        old_(/*most=*/6, /*seed=*/1),
        addresses_{Address::FromBits(family, 0)} {}

  void Run() {
    while (!operands_.AtEnd()) Operation();
    EndBatch();
    while (!old_.empty()) CheckEmpty(old_.DropOne(), "an old version");
  }

 private:
  void Operation() {
    switch (operands_.Byte() % 8) {
      case 0:
      case 1: {
        const Prefix prefix = ReadPrefix();
        Announce(prefix, operands_.NextHop());
        break;
      }
      case 2:
        batch_.push_back({ReadPrefix(), kNoRoute});
        break;
      case 3:
        EndBatch();
        break;
      case 4:
        Check({ReadAddress()});
        break;
      case 5:
        EndBatch();
        table_.Recompile();
        CheckEverywhere();
        break;
      case 6: {
        const Prefix first = ReadPrefix();
        NextHopId next_hop = operands_.NextHop();
        for (const Prefix& prefix : Row(first, operands_.Byte())) {
          Announce(prefix, next_hop);
          next_hop ^= next_hop > 1 ? 1 : 0;
        }
        break;
      }
      case 7: {
        const Prefix last = ReadPrefix();
        const NextHopId next_hop = operands_.NextHop();
        for (const Prefix& prefix : Chain(last.address(), 0, last.length())) {
          if (next_hop % 2 == 1) {
            batch_.push_back({prefix, kNoRoute});
          } else {
            Announce(prefix, next_hop + static_cast<uint32_t>(prefix.length()));
          }
        }
        break;
      }
    }
  }

  Address ReadAddress() {
    const Address& home = addresses_[operands_.Byte() % addresses_.size()];
    const int bits = AddressBits(family_);
    const int shift = operands_.Byte() % bits;
    const absl::uint128 change =
        absl::uint128(operands_.Byte()) << 8 | operands_.Byte();
    const absl::uint128 mask = absl::Uint128Max() << (128 - bits);
    const Address address = Address::FromBits(
        family_, home.bits() ^ ((change << 112 >> shift) & mask));
    if (addresses_.size() < 256) addresses_.push_back(address);
    return address;
  }
  Prefix ReadPrefix() {
    const int length = operands_.Byte() % (AddressBits(family_) + 1);
    return Prefix::Truncate(ReadAddress(), length);
  }

  void Announce(const Prefix& prefix, NextHopId next_hop) {
    if (table_.model().size() + batch_.size() >= kMostRoutes) return;
    batch_.push_back({prefix, IsNextHop(next_hop) ? next_hop : 1});
  }

  void EndBatch() {
    table_.Apply(batch_);
    batch_.clear();
    CheckEverywhere();
  }

  void CheckEverywhere() {
    std::vector<Address> probes = BoundaryProbes(table_.ModelRoutes());
    const Address zero = Address::FromBits(family_, 0);
    probes.insert(probes.end(), {zero, PreviousAddress(zero)});
    Check(std::move(probes));
  }

  void Check(std::vector<Address> addresses) {
    CheckEmpty(table_.Check(std::move(addresses), old_), "the table");
  }

  const Family family_;
  Operands operands_;
  LiveTable table_;
  OldVersions old_;
  // Those that ReadAddress returned.
  std::vector<Address> addresses_;
  std::vector<Change> batch_;
};

}  // namespace
}  // namespace planb

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  planb::Operands operands({data, size});
  const auto first = operands.Byte();
  const planb::Family family =
      first % 4 == 3 ? planb::Family::kIpv4 : planb::Family::kIpv6;
  const planb::FibOptions options = {.prefix_lengths = first / 4 % 2 == 1};
  planb::HistoryFuzzer(family, options, operands).Run();
  return 0;
}
