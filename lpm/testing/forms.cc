#include "lpm/testing/forms.h"

#include <endian.h>

#include <cstdint>
#include <cstring>

#include "absl/base/internal/raw_logging.h"
#include "absl/numeric/int128.h"
#include "lpm/testing/right_answers.h"

namespace planb {

std::string FormName(Form form) {
  return std::string(FamilyName(FamilyOf(form))) +
         (form == Form::kIpv6Upper ? "Upper" : "");
}

void PrintTo(Form form, std::ostream* out) { *out << FormName(form); }

std::vector<char> PackAs(Form form, absl::Span<const Address> addresses) {
  const size_t size = BytesOf(form);
  std::vector<char> packed(addresses.size() * size);
  for (size_t i = 0; i < addresses.size(); ++i) {
    const Address& address = addresses[i];
    ABSL_RAW_CHECK(address.family() == FamilyOf(form), "of another family");
    const uint64_t octets[2] = {htobe64(absl::Uint128High64(address.bits())),
                                htobe64(absl::Uint128Low64(address.bits()))};
    std::memcpy(&packed[i * size], octets, size);
  }
  return packed;
}

void LookupAs(Form form, const Fib& fib, const void* packed, size_t count,
              void* next_hops, const Kernel& kernel) {
  if (form == Form::kIpv6Upper) {
    fib.LookupUpper(packed, count, next_hops, kernel);
  } else {
    fib.Lookup(packed, count, next_hops, kernel);
  }
}

std::vector<NextHopId> RightAnswersAs(Form form, absl::Span<const Route> routes,
                                      absl::Span<const Address> addresses) {
  return form == Form::kIpv6Upper
             ? RightUpperAnswers(routes, addresses)
             : RightAnswers(FamilyOf(form), routes, addresses);
}

}  // namespace planb
