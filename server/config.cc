// SPDX-License-Identifier: Apache-2.0

#include "server/config.h"

#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/flags/commandlineflag.h"
#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "absl/flags/usage.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/regular_file.h"

namespace planb::server {
namespace {

constexpr size_t kMaxFile = 1 << 20;
// The flag that names the file, so the file does not set it.
constexpr char kFileFlag[] = "config";

constexpr char kUsage[] =
    "Answers longest-prefix-match lookups over gRPC\n"
    "(planb.v1.RouteLookup) and takes route changes (planb.v1.RouteTable).\n\n"
    "Usage: planb_server [FLAGS]\n"
    "       planb_server --check_config [FLAGS]\n"
    "       planb_server config print [FLAGS]\n"
    "       planb_server --version\n\n"
    "Each flag may also be in the file of --config (\"max_routes: 5\") and in "
    "the\nenvironment (PLANB_MAX_ROUTES=5).\n";

constexpr char kSignals[] =
    "\nOn SIGHUP the server reads certificates, keys, the authorization "
    "policy\n"
    "and --log_level again. What cannot be used changes nothing.\n"
    "Logs go to stderr. On SIGTERM and SIGINT the server refuses new calls,\n"
    "finishes open ones and ends with status 0. A bad flag, file or address\n"
    "ends it with one line on stderr and status 1.\n";

constexpr std::pair<absl::string_view, int> kUnits[] = {
    {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"", 0}};

struct Topic {
  std::string name;  // for --help=NAME
  std::string title;
  std::vector<std::string> flags = {};
};

// What the macros of the header add, in the order in which they stand.
struct Table {
  std::vector<Topic> topics;
  std::vector<std::pair<std::string, OptionSetter>> setters;
  std::string often_used;
};

Table& TheTable() {
  static auto* const table = new Table();
  return *table;
}

// The flags of the table, by name.
std::map<std::string, absl::CommandLineFlag*> Flags() {
  std::map<std::string, absl::CommandLineFlag*> flags;
  for (const Topic& topic : TheTable().topics) {
    for (const std::string& name : topic.flags) {
      flags.emplace(name, absl::FindCommandLineFlag(name));
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

// The title, and the flags with defaults and what they mean.
std::string HelpOf(const Topic& topic) {
  constexpr size_t kColumns = 80;
  std::string help = absl::StrCat(topic.title, ":\n");
  for (const std::string& name : topic.flags) {
    const absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
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

// What --help prints, without a topic: what fits a screen.
std::string HelpOverview() {
  std::string text = absl::StrCat(
      "planb_server: ", kUsage, "\nFlags used most:\n", TheTable().often_used,
      "\nTopics, with all their flags, for --help=TOPIC; or --help=all:\n");
  for (const Topic& topic : TheTable().topics) {
    absl::StrAppend(&text, absl::StrFormat("  %-12s  %s\n", topic.name,
                                           absl::AsciiStrToLower(topic.title)));
  }
  return text;
}

// Flags of a topic, or of "all". Errors: INVALID_ARGUMENT.
absl::StatusOr<std::string> HelpAbout(absl::string_view name) {
  std::string text;
  std::string names = "all";
  if (name == "all") text = absl::StrCat("planb_server: ", kUsage, kSignals);
  for (const Topic& topic : TheTable().topics) {
    if (name == "all") absl::StrAppend(&text, "\n", HelpOf(topic));
    if (name == topic.name) return HelpOf(topic);
    absl::StrAppend(&names, ", ", topic.name);
  }
  if (!text.empty()) return text;
  return absl::InvalidArgumentError(
      absl::StrCat("--help: \"", name, "\" is no topic; there are: ", names));
}

// Sets each flag that the file names: "listen: [unix:///a, '[::1]:1']" as
// --listen=unix:///a,[::1]:1 does. Keys are names of flags without dashes; a
// value is one scalar or, for a flag that is a list, a sequence of them.
// Errors: INVALID_ARGUMENT, with file, line and key, for a file that cannot be
// read, has more than 1 MiB, is no such YAML or has a second document, an
// unknown key, a key that is there twice, --config itself, or a value that the
// flag refuses.
absl::Status SetFlagsFromFile(const std::string& path) {
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
    const auto flags = Flags();
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
absl::Status SetFlagsFromEnvironment() {
  for (const auto& [name, flag] : Flags()) {
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

absl::Status SetOption(absl::Duration value, absl::Duration& option) {
  if (value < absl::ZeroDuration()) {
    return absl::InvalidArgumentError("must not be negative");
  }
  option = value;
  return absl::OkStatus();
}

bool AddFlag(absl::string_view name, OptionSetter set) {
  TheTable().topics.back().flags.emplace_back(name);
  if (set != nullptr) TheTable().setters.emplace_back(name, set);
  return true;
}

bool AddTopic(absl::string_view name, absl::string_view title) {
  TheTable().topics.push_back({std::string(name), std::string(title)});
  return true;
}

bool AddOftenUsed(absl::string_view flag, absl::string_view meaning) {
  absl::StrAppendFormat(&TheTable().often_used, "  %-27s  %s\n", flag, meaning);
  return true;
}

std::vector<absl::Status> SetOptions(CommandLine& line) {
  std::vector<absl::Status> problems;
  for (const auto& [name, set] : TheTable().setters) {
    const absl::Status status = set(line);
    if (status.ok()) continue;
    problems.push_back(absl::InvalidArgumentError(
        absl::StrCat("--", name, " ", status.message())));
  }
  return problems;
}

absl::Status PrintHelpIfAsked(int argc, char** argv) {
  absl::SetProgramUsageMessage(kUsage);  // for abseil's --helpfull
  for (int i = 1; i < argc; ++i) {
    absl::string_view word = argv[i];
    if (word == "--") break;
    if (!absl::ConsumePrefix(&word, "-")) continue;
    absl::ConsumePrefix(&word, "-");
    absl::StatusOr<std::string> text;
    if (word == "help" || word == "h") {
      text = HelpOverview();
    } else if (absl::ConsumePrefix(&word, "help=")) {
      text = HelpAbout(word);
    } else {
      continue;
    }
    if (!text.ok()) return text.status();
    std::cout << *text;
    std::exit(0);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<char*>> SetFlags(int argc, char** argv) {
  const absl::Status refused = RefuseFlagsOfAbseil(argc, argv);
  if (!refused.ok()) return refused;
  const std::string file = ConfigFile(argc, argv);
  if (!file.empty()) {
    const absl::Status set = SetFlagsFromFile(file);
    if (!set.ok()) return set;
  }
  const absl::Status set = SetFlagsFromEnvironment();
  if (!set.ok()) return set;
  return absl::ParseCommandLine(argc, argv);
}

FlagValues ValuesOfFlags() {
  FlagValues values;
  for (const auto& [name, flag] : Flags()) {
    values[name] = flag->CurrentValue();
  }
  return values;
}

void RestoreFlags(const FlagValues& values) {
  std::string error;
  for (const auto& [name, flag] : Flags()) {
    ABSL_RAW_CHECK(flag->ParseFrom(values.at(name), &error),
                   "a flag refuses its own value");
  }
}

void ResetFlags() {
  std::string error;
  for (const auto& [name, flag] : Flags()) {
    ABSL_RAW_CHECK(flag->ParseFrom(flag->DefaultValue(), &error),
                   "a flag refuses its default");
  }
}

std::string FlagsAsYaml() {
  std::string yaml;
  for (const auto& [name, flag] : Flags()) {
    const std::string value = flag->CurrentValue();
    YAML::Emitter scalar;
    scalar << YAML::DoubleQuoted << value;
    const bool skip = value == flag->DefaultValue() || name == kFileFlag;
    absl::StrAppend(&yaml, skip ? "# " : "", name, ": ", scalar.c_str(), "\n");
  }
  return yaml;
}

}  // namespace planb::server
