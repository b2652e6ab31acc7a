// SPDX-License-Identifier: Apache-2.0

// The flags of planb_server as a table: what each of them sets, the topics of
// --help, and values from a YAML file and from the environment.

#ifndef PLANB_SERVER_CONFIG_H_
#define PLANB_SERVER_CONFIG_H_

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// A flag that sets CommandLine::`field`, such as server.lookup.max_streams.
// Type and default are those of the field.
#define PLANB_FLAG(name, field, help) \
  PLANB_FLAG_AS(decltype(planb::server::CommandLine::field), name, field, help)

// The same for a field that holds bytes.
#define PLANB_SIZE_FLAG(name, field, help) \
  PLANB_FLAG_AS(planb::server::Size, name, field, help)

#define PLANB_FLAG_AS(type, name, field, help)                                 \
  ABSL_FLAG(type, name, static_cast<type>(planb::server::CommandLine().field), \
            help);                                                             \
  PLANB_ADD_FLAG(name, [](planb::server::CommandLine& line) {                  \
    return planb::server::SetOption(absl::GetFlag(FLAGS_##name), line.field);  \
  })

// A flag that sets no field by itself.
#define PLANB_UNSET_FLAG(type, name, default_value, help) \
  ABSL_FLAG(type, name, default_value, help);             \
  PLANB_ADD_FLAG(name, nullptr)

#define PLANB_ADD_FLAG(name, ...)            \
  [[maybe_unused]] const bool added_##name = \
      planb::server::AddFlag(#name, __VA_ARGS__)

// Begins a topic of --help, which has the flags up to the next one.
#define PLANB_TOPIC(name, title)                   \
  [[maybe_unused]] const bool added_topic_##name = \
      planb::server::AddTopic(#name, title)

// A line of --help without a topic, such as "--routes=FILE  routes".
#define PLANB_OFTEN_USED(name, value, meaning)     \
  [[maybe_unused]] const bool added_often_##name = \
      planb::server::AddOftenUsed("--" #name value, meaning)

namespace planb::server {

struct CommandLine;

// The value of a flag such as 64MiB: bytes, or a multiple of KiB, MiB or GiB.
struct Size {
  explicit Size(uint64_t b) : bytes(b) {}

  uint64_t bytes;
};
bool AbslParseFlag(absl::string_view text, Size* size, std::string* error);
std::string AbslUnparseFlag(const Size& size);

// Sets an option to the value of its flag. Errors: INVALID_ARGUMENT, without
// the name of the flag, for a size that the option cannot hold, or a negative
// duration.
template <typename Value>
absl::Status SetOption(Value value, Value& option) {
  option = std::move(value);
  return absl::OkStatus();
}
template <typename Bytes>
absl::Status SetOption(Size size, Bytes& option) {
  constexpr uint64_t kMost = std::numeric_limits<Bytes>::max();
  if (size.bytes > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be below ", AbslUnparseFlag(Size(kMost + 1))));
  }
  option = static_cast<Bytes>(size.bytes);
  return absl::OkStatus();
}
absl::Status SetOption(absl::Duration value, absl::Duration& option);

// For the macros: these return true.
using OptionSetter = absl::Status (*)(CommandLine&);
bool AddFlag(absl::string_view name, OptionSetter set);
bool AddTopic(absl::string_view name, absl::string_view title);
bool AddOftenUsed(absl::string_view flag, absl::string_view meaning);

// Sets the fields of all flags. Returns what is wrong with their values.
std::vector<absl::Status> SetOptions(CommandLine& line);

// If the command line has --help, prints it and ends the process with status 0;
// abseil's own handling of the flag ends it with status 1. Errors:
// INVALID_ARGUMENT for an unknown topic. Call once.
absl::Status PrintHelpIfAsked(int argc, char** argv);

// Sets flags from the file of --config (or PLANB_CONFIG), then from the
// environment, then from the command line, each of which overrides the one
// before. Returns the words that are no flags, the program's name first.
// Errors: INVALID_ARGUMENT for what the file or a variable cannot set, and for
// flags of abseil that read others from elsewhere. What is wrong on the command
// line ends the process with status 1.
absl::StatusOr<std::vector<char*>> SetFlags(int argc, char** argv);

// The values of the flags, by name, as text.
using FlagValues = std::map<std::string, std::string>;
FlagValues ValuesOfFlags();
// Unlike absl::FlagSaver, logs nothing. REQUIRES: `values` is of
// ValuesOfFlags(), of this process.
void RestoreFlags(const FlagValues& values);
void ResetFlags();  // to their defaults

// The values of all flags now, as a file for --config. --config, and
// each flag that has its default, is commented out. No flag holds a secret:
// keys and passwords are in files that flags name.
std::string FlagsAsYaml();

}  // namespace planb::server

#endif  // PLANB_SERVER_CONFIG_H_
