// SPDX-License-Identifier: Apache-2.0

// UTF-8 from where anything may come.

#ifndef PLANB_SERVER_BASE_UTF8_H_
#define PLANB_SERVER_BASE_UTF8_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace planb::server {

// U+FFFD, which stands for what is no character.
inline constexpr absl::string_view kReplacementCharacter = "\xef\xbf\xbd";

// The bytes of the character that `text` begins with, 1 to 4; 0 if it begins
// with none: a stray or missing continuation, an overlong form, a surrogate,
// one beyond U+10FFFF. REQUIRES: text is not empty.
size_t Utf8Length(absl::string_view text);

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_UTF8_H_
