// SPDX-License-Identifier: Apache-2.0

#include "server/base/log_json.h"

#include "absl/strings/str_cat.h"
#include "server/base/utf8.h"

namespace planb::server {
namespace {

// The octet `c` within a JSON string.
void AppendAscii(char c, std::string& out) {
  switch (c) {
    case '"':
    case '\\':
      out += '\\';
      out += c;
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  const auto code = static_cast<unsigned char>(c);
  if (code >= 0x20 && code != 0x7f) {
    out += c;
  } else {
    absl::StrAppend(&out, "\\u", absl::Hex(code, absl::kZeroPad4));
  }
}

}  // namespace

void AppendJsonString(absl::string_view text, std::string& out) {
  out += '"';
  while (!text.empty()) {
    const size_t octets = Utf8Length(text);
    if (octets == 1) {
      AppendAscii(text.front(), out);
    } else if (octets == 0) {
      out.append(kReplacementCharacter.data(), kReplacementCharacter.size());
    } else {
      out.append(text.data(), octets);
    }
    text.remove_prefix(octets == 0 ? 1 : octets);
  }
  out += '"';
}

}  // namespace planb::server
