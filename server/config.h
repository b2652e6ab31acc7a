// SPDX-License-Identifier: Apache-2.0

// The flags' values from a YAML file and from the environment, and as YAML.

#ifndef PLANB_SERVER_CONFIG_H_
#define PLANB_SERVER_CONFIG_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace planb::server {

// Sets each flag that the file names: "listen: [unix:///a, '[::1]:1']" as
// --listen=unix:///a,[::1]:1 does. Keys are names of flags without dashes; a
// value is one scalar or, for a flag that is a list, a sequence of them. Only
// flags declared in `source`, such as "server/server_flags.cc", are known.
// Errors: INVALID_ARGUMENT, with file, line and key, for a file that cannot be
// read, has more than 1 MiB, is no such YAML or has a second document, an
// unknown key, a key that is there twice, --config itself, or a value that the
// flag refuses.
absl::Status SetFlagsFromFile(const std::string& path,
                              absl::string_view source);

// Sets each flag that has a variable: PLANB_MAX_ROUTES is that of --max_routes.
// Errors: INVALID_ARGUMENT for a value that the flag refuses.
absl::Status SetFlagsFromEnvironment(absl::string_view source);

// The values of the flags of `source`, by name, as text.
using FlagValues = std::map<std::string, std::string>;
FlagValues ValuesOfFlags(absl::string_view source);
// REQUIRES: `values` is of ValuesOfFlags(), of this process.
void RestoreFlags(const FlagValues& values, absl::string_view source);
void ResetFlags(absl::string_view source);  // to their defaults

// Flags of one topic of --help.
struct FlagTopic {
  absl::string_view name;  // for --help=NAME
  absl::string_view title;
  std::vector<absl::string_view> flags;
};

// The title, and the flags with defaults and what they mean, wrapped to 80
// columns. CHECK-fails if there is no such flag.
std::string HelpOf(const FlagTopic& topic);

// The values of all flags now, as a file for SetFlagsFromFile. --config, and
// each flag that has its default, is commented out. No flag holds a secret:
// keys and passwords are in files that flags name.
std::string FlagsAsYaml(absl::string_view source);

}  // namespace planb::server

#endif  // PLANB_SERVER_CONFIG_H_
