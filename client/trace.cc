// Packed once, so that the benchmark measures lookups and not itself.

#include "client/trace.h"

#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/address_lines.h"

namespace planb::client {

Trace::Trace(Family family, absl::Span<const Address> addresses, size_t batch)
    : family_(family),
      batch_size_(batch),
      batches_((addresses.size() + batch - 1) / batch) {
  octets_.reserve(batches_ * batch_size_ *
                  static_cast<size_t>(AddressBytes(family)));
  for (size_t i = 0; i < batches_ * batch_size_; ++i) {
    octets_ += addresses[i % addresses.size()].ToPacked();
  }
}

Batch Trace::Get(size_t index) const {
  const size_t octets =
      batch_size_ * static_cast<size_t>(AddressBytes(family_));
  const absl::string_view part =
      absl::string_view(octets_).substr(index % batches_ * octets, octets);
  return family_ == Family::kIpv6 ? Batch{.addresses_v6 = part}
                                  : Batch{.addresses_v4 = part};
}

std::vector<NextHopId> Trace::Expect(const ReferenceTable& table) const {
  const auto width = static_cast<size_t>(AddressBytes(family_));
  std::vector<NextHopId> expected;
  expected.reserve(batches_ * batch_size_);
  for (size_t at = 0; at < octets_.size(); at += width) {
    expected.push_back(table.NextHop(
        *Address::FromPacked(absl::string_view(octets_).substr(at, width))));
  }
  return expected;
}

absl::Span<const NextHopId> Trace::Slice(const std::vector<NextHopId>& expected,
                                         size_t index) const {
  return absl::MakeConstSpan(expected).subspan(index % batches_ * batch_size_,
                                               batch_size_);
}

absl::StatusOr<std::vector<Address>> ReadAddressFile(const std::string& path,
                                                     Family family) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot open ", path));
  std::vector<Address> addresses;
  absl::Status malformed;
  absl::Status status = ReadAddressLines(
      file,
      [&](const Address& address) {
        if (address.family() == family) addresses.push_back(address);
        return malformed;
      },
      [&](uint64_t line, const absl::Status& why) {
        malformed = absl::InvalidArgumentError(
            absl::StrCat(path, ": line ", line, ": ", why.message()));
      });
  if (!malformed.ok()) return malformed;
  if (!status.ok()) return status;
  if (addresses.empty()) {
    return absl::NotFoundError(
        absl::StrCat(path, " holds no ", FamilyName(family), " address"));
  }
  return addresses;
}

}  // namespace planb::client
