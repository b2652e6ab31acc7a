// SPDX-License-Identifier: Apache-2.0

// The flags' values from a YAML file, the environment and the command line, and
// as YAML.

#ifndef PLANB_SERVER_CONFIG_H_
#define PLANB_SERVER_CONFIG_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace planb::server {

// The value of a flag such as 64MiB: bytes, or a multiple of KiB, MiB or GiB.
struct Size {
  uint64_t bytes = 0;
};

bool AbslParseFlag(absl::string_view text, Size* size, std::string* error);
std::string AbslUnparseFlag(const Size& size);

// Sets flags from the file of --config (or PLANB_CONFIG), then from the
// environment, then from the command line, each of which overrides the one
// before. Returns the words that are no flags, the program's name first.
// Errors: INVALID_ARGUMENT for what the file or a variable cannot set, and for
// flags of abseil that read others from elsewhere. What is wrong on the command
// line ends the process with status 1. Only flags declared in `source`, such as
// "server/server_flags.cc", are known to the file and the environment.
absl::StatusOr<std::vector<char*>> SetFlags(int argc, char** argv,
                                            absl::string_view source);

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

// The values of all flags now, as a file for --config. --config, and
// each flag that has its default, is commented out. No flag holds a secret:
// keys and passwords are in files that flags name.
std::string FlagsAsYaml(absl::string_view source);

}  // namespace planb::server

#endif  // PLANB_SERVER_CONFIG_H_
