// As forgiving as a shell pipeline wants, and as strict as Address::Parse.

#include "client/load/address_lines.h"

#include <string>

#include "absl/strings/ascii.h"

namespace planb::client {

absl::Status ReadAddressLines(
    std::istream& lines,
    absl::FunctionRef<absl::Status(const Address&)> on_address,
    absl::FunctionRef<void(uint64_t line, const absl::Status&)> on_malformed) {
  std::string line;
  for (uint64_t number = 1; std::getline(lines, line); ++number) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
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

}  // namespace planb::client
