// SPDX-License-Identifier: Apache-2.0

#include "server/base/log_json.h"

#include "absl/strings/str_cat.h"
#include "base/utf8.h"

namespace planb::server {
namespace {

// The byte `c` within a JSON string.
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
    const size_t bytes = Utf8Length(text);
    if (bytes == 1) {
      AppendAscii(text.front(), out);
    } else if (bytes == 0) {
      out.append(kReplacementCharacter.data(), kReplacementCharacter.size());
    } else {
      out.append(text.data(), bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  out += '"';
}

}  // namespace planb::server
