// Addresses as text, one a line, as people pipe them in.

#ifndef PLANB_CLIENT_LOAD_ADDRESS_LINES_H_
#define PLANB_CLIENT_LOAD_ADDRESS_LINES_H_

#include <cstdint>
#include <istream>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "lpm/address.h"

namespace planb::client {

// Hands every address of `lines` to `on_address` and every line that is none
// to `on_malformed`, with its number (from 1) and what is wrong. Blanks around
// an address, empty lines and lines that begin with '#' are skipped.
// Errors: what `on_address` returns, which ends the reading; DATA_LOSS if the
// stream breaks.
absl::Status ReadAddressLines(
    std::istream& lines,
    absl::FunctionRef<absl::Status(const Address&)> on_address,
    absl::FunctionRef<void(uint64_t line, const absl::Status&)> on_malformed);

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOAD_ADDRESS_LINES_H_
