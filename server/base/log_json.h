// SPDX-License-Identifier: Apache-2.0

// Log lines as JSON, whatever their values hold.

#ifndef PLANB_SERVER_BASE_LOG_JSON_H_
#define PLANB_SERVER_BASE_LOG_JSON_H_

#include <string>

#include "absl/strings/string_view.h"

namespace planb::server {

// Appends `text` as a JSON string, quotes included (RFC 8259). What is no UTF-8
// becomes U+FFFD, byte for byte, so the line is always valid.
void AppendJsonString(absl::string_view text, std::string& out);

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_LOG_JSON_H_
