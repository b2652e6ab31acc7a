// SPDX-License-Identifier: Apache-2.0

// A fuzz target: any bytes, read as a message in pieces. libFuzzer runs it
// (third_party/fuzz.sh); wire_fuzzer_test.cc replays the corpus.
//
// The last bit of the first byte chooses the kind of message. Its other bits,
// modulo 8, are the number of cuts. The bytes after it are the places of the
// cuts. The rest is the message. A disagreement with the generated parser
// aborts.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "planb/v1/route_table.pb.h"
#include "proto/wire/batch_messages.h"
#include "proto/wire/packed_changes.h"
#include "proto/wire/testing/made_up_messages.h"
#include "proto/wire/testing/readings.h"

namespace planb::wire {
namespace {

void CheckSame(const std::string& read, const std::string& expected,
               const char* reading) {
  if (read == expected) return;
  std::fprintf(stderr, "%s: %s\nexpected: %s\n", reading,
               absl::CHexEscape(read).c_str(),
               absl::CHexEscape(expected).c_str());
  std::abort();
}

std::string Copy(const Bytes& bytes) {
  std::string copy(bytes.size(), '\0');
  bytes.CopyTo(copy.data());
  return copy;
}

// A request that is read and written again reads the same.
void CheckWritten(Pieces message, const std::string& expected) {
  BatchRequest read;
  if (!ParseBatchRequest(message, read)) return;
  const std::string v6 = Copy(read.addresses_v6);
  const std::string v4 = Copy(read.addresses_v4);
  const std::string upper = Copy(read.upper_halves_v6);
  const std::string hashes = Copy(read.flow_hashes);
  const OutgoingRequest request = {read, v6, v4, upper, read.table, hashes};
  std::vector<char> written(EncodedSize(request));
  char* const end = Encode(request, written.data());
  if (end != written.data() + written.size()) std::abort();
  CheckSame(kRequest.generated({written.data(), written.size()}), expected,
            "written again");
}

// Packed changes that are read and written again are the same bytes.
void CheckPacked(absl::string_view list) {
  for (const size_t address_bytes :
       {PackedChanges::kV6Bytes, PackedChanges::kV4Bytes}) {
    const PackedChanges changes(address_bytes, list);
    v1::UpdateRoutesRequest written;
    for (size_t i = 0; i < changes.size(); ++i) {
      AddPackedChange(changes[i], written);
    }
    CheckSame(
        changes.is_v6() ? written.changes_v6() : written.changes_v4(),
        std::string(list.substr(0, changes.size() * changes.entry_bytes())),
        "packed again");
  }
}

void Check(absl::string_view input) {
  const auto first =
      input.empty() ? uint8_t{0} : static_cast<uint8_t>(input.front());
  input.remove_prefix(std::min<size_t>(1, input.size()));
  const absl::string_view places = input.substr(0, (first >> 1) % 8);
  const absl::string_view message = input.substr(places.size());
  std::vector<size_t> cuts;
  for (const char place : places) {
    cuts.push_back(static_cast<uint8_t>(place) % (message.size() + 1));
  }

  const CutMessage cut(message, cuts);
  const Kind& kind = kKinds[first & 1];
  const std::string expected = kind.generated(message);
  CheckSame(kind.by_hand(cut.pieces()), expected, "by hand");
  CheckSame(kind.streamed(cut.pieces()), expected, "streamed");
  CheckPacked(message);
  if (&kind == &kRequest) CheckWritten(cut.pieces(), expected);
}

}  // namespace
}  // namespace planb::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  planb::wire::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
