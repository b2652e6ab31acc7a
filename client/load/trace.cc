// SPDX-License-Identifier: Apache-2.0

#include "client/load/trace.h"

#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace planb::client {

absl::Status ReadAddressLines(
    std::istream& lines,
    absl::FunctionRef<absl::Status(const Address&)> on_address,
    absl::FunctionRef<void(uint64_t line, const absl::Status&)> on_malformed,
    absl::FunctionRef<absl::Status()> before_wait) {
  // getline() ends a line with a NUL of its own.
  std::array<char, kMaxAddressLine + 1> line;
  for (uint64_t number = 1;; ++number) {
    if (lines.rdbuf()->in_avail() <= 0) {
      absl::Status status = before_wait();
      if (!status.ok()) return status;
    }
    lines.getline(line.data(), line.size());
    const auto taken = static_cast<size_t>(lines.gcount());
    if (lines.fail() && !lines.eof() && taken == kMaxAddressLine) {
      lines.clear();
      lines.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
      on_malformed(number,
                   absl::InvalidArgumentError(absl::StrCat(
                       "the line is longer than ", kMaxAddressLine, " bytes")));
      continue;
    }
    if (lines.fail()) break;
    absl::string_view text(line.data(), lines.eof() ? taken : taken - 1);
    if (number == 1) absl::ConsumePrefix(&text, "\xef\xbb\xbf");
    text = absl::StripAsciiWhitespace(text);
    if (text.empty() || text[0] == '#') continue;
    const absl::StatusOr<Address> address = Address::Parse(text);
    if (!address.ok()) {
      on_malformed(number, address.status());
      continue;
    }
    absl::Status status = on_address(*address);
    if (!status.ok()) return status;
  }
  if (lines.bad()) return absl::DataLossError("reading broke off");
  return absl::OkStatus();
}

Trace::Trace(Family family, absl::Span<const Address> addresses, size_t batch,
             AddressForm form)
    : family_(family),
      form_(form),
      width_(form == AddressForm::kUpper
                 ? 8
                 : static_cast<size_t>(AddressBytes(family))),
      batch_size_(batch),
      batches_((addresses.size() + batch - 1) / batch) {
  std::string bytes;
  bytes.reserve(batches_ * batch_size_ * width_);
  for (size_t i = 0; i < batches_ * batch_size_; ++i) {
    bytes += addresses[i % addresses.size()].ToPacked().substr(0, width_);
  }
  bytes_ = std::make_shared<const std::string>(std::move(bytes));
}

Batch Trace::Get(size_t index) const {
  const size_t bytes = batch_size_ * width_;
  const absl::string_view part =
      absl::string_view(*bytes_).substr(index % batches_ * bytes, bytes);
  Batch batch = {.keep_alive = bytes_};
  if (form_ == AddressForm::kUpper) {
    batch.upper_halves_v6 = part;
  } else if (family_ == Family::kIpv6) {
    batch.addresses_v6 = part;
  } else {
    batch.addresses_v4 = part;
  }
  return batch;
}

std::vector<NextHopId> Trace::Expect(const ReferenceTable& table) const {
  std::vector<NextHopId> expected;
  expected.reserve(batches_ * batch_size_);
  const bool upper = form_ == AddressForm::kUpper;
  for (size_t at = 0; at < bytes_->size(); at += width_) {
    std::string packed = bytes_->substr(at, width_);
    if (upper) packed.resize(16);
    const Address address = *Address::FromPacked(packed);
    expected.push_back(upper ? table.NextHopOfHalf(address)
                             : table.NextHop(address));
  }
  return expected;
}

absl::Span<const NextHopId> Trace::Slice(const std::vector<NextHopId>& expected,
                                         size_t index) const {
  return absl::MakeConstSpan(expected).subspan(index % batches_ * batch_size_,
                                               batch_size_);
}

absl::StatusOr<Trace> MakeTrace(TraceKind kind, Family family,
                                absl::Span<const Route> routes, size_t count,
                                uint64_t seed, size_t batch, AddressForm form) {
  std::vector<Address> addresses;
  addresses.reserve(count);
  const absl::Status made = MakeTraffic(
      kind, family, routes, count, seed,
      [&](const Address& address) { addresses.push_back(address); });
  if (!made.ok()) return made;
  return Trace(family, addresses, batch, form);
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
            absl::StrCat(path, ":", line, ": ", why.message()));
      });
  if (!malformed.ok()) return malformed;
  if (!status.ok()) return status;
  if (addresses.empty()) {
    return absl::NotFoundError(
        absl::StrCat(path, " holds no ", FamilyName(family), " address"));
  }
  return addresses;
}

// Offsets from the start are doubles: exact to the nanosecond for 100 days.

Arrivals::Arrivals(const ArrivalOptions& options, absl::Time start)
    : options_(options),
      start_(start),
      gap_ns_(1e9 / options.batches_per_second),
      random_(options.seed * 0x9e3779b97f4a7c15 + options.stream) {
  Schedule();
}

void Arrivals::Pop() {
  ++count_;
  Schedule();
}

void Arrivals::Schedule() {
  if (options_.kind == ArrivalKind::kEven) {
    const double turn = static_cast<double>(options_.stream) /
                        static_cast<double>(options_.streams);
    offset_ns_ = gap_ns_ * (static_cast<double>(count_) + turn);
  } else {
    // 0 < unit <= 1.
    const double unit =
        static_cast<double>((random_.Next() >> 11) + 1) * 0x1p-53;
    offset_ns_ -= gap_ns_ * std::log(unit);
  }
  next_ = start_ + absl::Nanoseconds(std::llround(offset_ns_));
}

}  // namespace planb::client
