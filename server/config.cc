// SPDX-License-Identifier: Apache-2.0

#include "server/config.h"

#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/flags/commandlineflag.h"
#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/regular_file.h"

namespace planb::server {
namespace {

constexpr size_t kMaxFile = 1 << 20;
// The flag that names the file, so the file does not set it.
constexpr char kFileFlag[] = "config";

constexpr std::pair<absl::string_view, int> kUnits[] = {
    {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"", 0}};

// The flags of `source`, by name.
std::map<std::string, absl::CommandLineFlag*> FlagsOf(
    absl::string_view source) {
  std::map<std::string, absl::CommandLineFlag*> flags;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (absl::EndsWith(flag->Filename(), source)) {
      flags.emplace(std::string(name), flag);
    }
  }
  return flags;
}

// The value of a flag, of which `many` may be given. Errors: INVALID_ARGUMENT.
absl::StatusOr<std::string> ValueOf(const YAML::Node& node, bool many) {
  if (node.IsScalar()) return node.Scalar();
  if (!many) return absl::InvalidArgumentError("needs one value");
  if (!node.IsSequence()) {
    return absl::InvalidArgumentError(
        "needs one value, or a sequence of values");
  }
  std::vector<std::string> values;
  for (const YAML::Node& each : node) {
    if (!each.IsScalar()) {
      return absl::InvalidArgumentError("has a value that is no scalar");
    }
    values.push_back(each.Scalar());
  }
  return absl::StrJoin(values, ",");
}

absl::Status Set(const YAML::Node& value, absl::CommandLineFlag& flag) {
  if (flag.Name() == kFileFlag) {
    return absl::InvalidArgumentError("names the file itself");
  }
  const auto text = ValueOf(value, flag.IsOfType<std::vector<std::string>>());
  if (!text.ok()) return text.status();
  std::string error;
  if (flag.ParseFrom(*text, &error)) return absl::OkStatus();
  return absl::InvalidArgumentError(error);
}

// Sets each flag that the file names: "listen: [unix:///a, '[::1]:1']" as
// --listen=unix:///a,[::1]:1 does. Keys are names of flags without dashes; a
// value is one scalar or, for a flag that is a list, a sequence of them. Only
// flags declared in `source`, such as "server/server_flags.cc", are known.
// Errors: INVALID_ARGUMENT, with file, line and key, for a file that cannot be
// read, has more than 1 MiB, is no such YAML or has a second document, an
// unknown key, a key that is there twice, --config itself, or a value that the
// flag refuses.
absl::Status SetFlagsFromFile(const std::string& path,
                              absl::string_view source) {
  const auto text = ReadRegularFile(path, kMaxFile);
  if (!text.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--config: ", path, ": ", text.status().message()));
  }
  const auto wrong = [&](int line, absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", line + 1, ": ", what));
  };
  try {  // yaml-cpp reports errors by exceptions only
    const std::vector<YAML::Node> documents = YAML::LoadAll(*text);
    if (documents.size() > 1) {
      return wrong(documents[1].Mark().line, "a second document");
    }
    if (documents.empty() || documents.front().IsNull()) {
      return absl::OkStatus();
    }
    const YAML::Node& root = documents.front();
    if (!root.IsMap()) return wrong(0, "is not a mapping of flags to values");
    const auto flags = FlagsOf(source);
    std::set<std::string> seen;
    for (const auto& entry : root) {
      const int line = entry.first.Mark().line;
      if (!entry.first.IsScalar()) return wrong(line, "has a key of no name");
      const std::string& key = entry.first.Scalar();
      const auto flag = flags.find(key);
      if (flag == flags.end()) {
        return wrong(line, absl::StrCat("unknown key \"", key, "\""));
      }
      if (!seen.insert(key).second) {
        return wrong(line, absl::StrCat("\"", key, "\" is there twice"));
      }
      const absl::Status set = Set(entry.second, *flag->second);
      if (!set.ok()) return wrong(line, absl::StrCat(key, ": ", set.message()));
    }
  } catch (const YAML::Exception& error) {
    return wrong(error.mark.line, error.msg);
  }
  return absl::OkStatus();
}

// Sets each flag that has a variable: PLANB_MAX_ROUTES is that of --max_routes.
// Errors: INVALID_ARGUMENT for a value that the flag refuses.
absl::Status SetFlagsFromEnvironment(absl::string_view source) {
  for (const auto& [name, flag] : FlagsOf(source)) {
    const std::string variable =
        absl::StrCat("PLANB_", absl::AsciiStrToUpper(name));
    const char* const value = std::getenv(variable.c_str());
    if (value == nullptr) continue;
    std::string error;
    if (!flag->ParseFrom(value, &error)) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable ", variable, ": ", error));
    }
  }
  return absl::OkStatus();
}

// Refuses the flags of Abseil that read other flags from a file or from the
// environment: Abseil ends the process if these cannot be read, also at a
// reload. Errors: INVALID_ARGUMENT.
absl::Status RefuseFlagsOfAbseil(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    absl::string_view word = argv[i];
    if (word == "--") break;
    if (!absl::ConsumePrefix(&word, "-")) continue;
    absl::ConsumePrefix(&word, "-");
    const absl::string_view name = word.substr(0, word.find('='));
    for (const absl::string_view refused :
         {"flagfile", "fromenv", "tryfromenv", "undefok"}) {
      if (name != refused) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("unknown flag \"--", name, "\"; try --help"));
    }
  }
  return absl::OkStatus();
}

// The file of --config on the command line, or else of the environment.
std::string ConfigFile(int argc, char** argv) {
  const char* const variable = std::getenv("PLANB_CONFIG");
  std::string file = variable == nullptr ? "" : variable;
  for (int i = 1; i < argc; ++i) {
    absl::string_view word = argv[i];
    if (word == "--") break;
    if (!absl::ConsumePrefix(&word, "-")) continue;
    absl::ConsumePrefix(&word, "-");
    if (absl::ConsumePrefix(&word, "config=")) {
      file = std::string(word);
    } else if (word == "config" && i + 1 < argc) {
      file = argv[++i];
    }
  }
  return file;
}

}  // namespace

bool AbslParseFlag(absl::string_view text, Size* size, std::string* error) {
  for (const auto& [unit, shift] : kUnits) {
    if (!absl::ConsumeSuffix(&text, unit)) continue;
    if (absl::SimpleAtoi(text, &size->bytes) &&
        size->bytes <= std::numeric_limits<uint64_t>::max() >> shift) {
      size->bytes <<= shift;
      return true;
    }
    break;
  }
  *error = "is no size such as 1000000, 512KiB, 64MiB or 4GiB";
  return false;
}

std::string AbslUnparseFlag(const Size& size) {
  for (const auto& [unit, shift] : kUnits) {
    if (size.bytes % (uint64_t{1} << shift) == 0 &&
        (size.bytes != 0 || shift == 0)) {
      return absl::StrCat(size.bytes >> shift, unit);
    }
  }
  return "";
}

absl::StatusOr<std::vector<char*>> SetFlags(int argc, char** argv,
                                            absl::string_view source) {
  const absl::Status refused = RefuseFlagsOfAbseil(argc, argv);
  if (!refused.ok()) return refused;
  const std::string file = ConfigFile(argc, argv);
  if (!file.empty()) {
    const absl::Status set = SetFlagsFromFile(file, source);
    if (!set.ok()) return set;
  }
  const absl::Status set = SetFlagsFromEnvironment(source);
  if (!set.ok()) return set;
  return absl::ParseCommandLine(argc, argv);
}

FlagValues ValuesOfFlags(absl::string_view source) {
  FlagValues values;
  for (const auto& [name, flag] : FlagsOf(source)) {
    values[name] = flag->CurrentValue();
  }
  return values;
}

void RestoreFlags(const FlagValues& values, absl::string_view source) {
  std::string error;
  for (const auto& [name, flag] : FlagsOf(source)) {
    ABSL_RAW_CHECK(flag->ParseFrom(values.at(name), &error),
                   "a flag refuses its own value");
  }
}

void ResetFlags(absl::string_view source) {
  std::string error;
  for (const auto& [name, flag] : FlagsOf(source)) {
    ABSL_RAW_CHECK(flag->ParseFrom(flag->DefaultValue(), &error),
                   "a flag refuses its default");
  }
}

std::string HelpOf(const FlagTopic& topic) {
  constexpr size_t kColumns = 80;
  std::string help = absl::StrCat(topic.title, ":\n");
  for (const absl::string_view name : topic.flags) {
    const absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
    ABSL_RAW_CHECK(flag != nullptr, "a topic names no flag");
    const std::string value = flag->DefaultValue();
    absl::StrAppend(&help, "  --", name, value.empty() ? "" : "=", value, "\n");
    std::string line = "     ";
    for (const absl::string_view word : absl::StrSplit(flag->Help(), ' ')) {
      if (line.size() + 1 + word.size() > kColumns) {
        absl::StrAppend(&help, line, "\n");
        line = "     ";
      }
      absl::StrAppend(&line, " ", word);
    }
    absl::StrAppend(&help, line, "\n");
  }
  return help;
}

std::string FlagsAsYaml(absl::string_view source) {
  std::string yaml;
  for (const auto& [name, flag] : FlagsOf(source)) {
    const std::string value = flag->CurrentValue();
    YAML::Emitter scalar;
    scalar << YAML::DoubleQuoted << value;
    const bool skip = value == flag->DefaultValue() || name == kFileFlag;
    absl::StrAppend(&yaml, skip ? "# " : "", name, ": ", scalar.c_str(), "\n");
  }
  return yaml;
}

}  // namespace planb::server
