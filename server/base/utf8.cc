// SPDX-License-Identifier: Apache-2.0

#include "server/base/utf8.h"

#include <algorithm>
#include <cstdint>

namespace planb::server {
namespace {

// The forms of more than one byte: how the first begins, and the first code
// point that needs so many.
struct Form {
  uint32_t mask;
  uint32_t mark;
  size_t bytes;
  uint32_t first;
};
constexpr Form kForms[] = {
    {0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};

}  // namespace

size_t Utf8Length(absl::string_view text) {
  const auto byte = [text](size_t i) {
    return static_cast<uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return 1;
  const Form* const form =
      std::find_if(std::begin(kForms), std::end(kForms),
                   [lead](const Form& f) { return (lead & f.mask) == f.mark; });
  if (form == std::end(kForms) || text.size() < form->bytes) return 0;
  uint32_t code = lead & ~form->mask;
  for (size_t i = 1; i < form->bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (code < form->first || surrogate || code > 0x10ffff) return 0;
  return form->bytes;
}

}  // namespace planb::server
