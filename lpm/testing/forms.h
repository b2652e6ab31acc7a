// The forms in which addresses are looked up: whole ones of both families, and
// upper halves. For tests that hold for all of them.

#ifndef PLANB_LPM_TESTING_FORMS_H_
#define PLANB_LPM_TESTING_FORMS_H_

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/fib.h"
#include "lpm/kernel.h"
#include "lpm/prefix.h"

namespace planb {

enum class Form { kIpv4, kIpv6, kIpv6Upper };

// The form of whole addresses.
constexpr Form WholeForm(Family family) {
  return family == Family::kIpv4 ? Form::kIpv4 : Form::kIpv6;
}
constexpr Family FamilyOf(Form form) {
  return form == Form::kIpv4 ? Family::kIpv4 : Family::kIpv6;
}
// Octets of one.
constexpr size_t BytesOf(Form form) {
  return form == Form::kIpv4 ? 4 : form == Form::kIpv6 ? 16 : 8;
}

// "IPv4", "IPv6" or "IPv6Upper".
std::string FormName(Form form);
void PrintTo(Form form, std::ostream* out);

// In network byte order, one after the other.
// REQUIRES: addresses of FamilyOf(form).
std::vector<char> PackAs(Form form, absl::Span<const Address> addresses);

// Fib::Lookup or Fib::LookupUpper.
void LookupAs(Form form, const Fib& fib, const void* packed, size_t count,
              void* next_hops, const Kernel& kernel);

// RightAnswers or RightUpperAnswers.
std::vector<NextHopId> RightAnswersAs(Form form, absl::Span<const Route> routes,
                                      absl::Span<const Address> addresses);

}  // namespace planb

#endif  // PLANB_LPM_TESTING_FORMS_H_
