// SPDX-License-Identifier: Apache-2.0

// The server as a process: its help, refusals, signals, and sockets after a
// kill.

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/testing/await.h"
#include "base/testing/server_process.h"
#include "base/testing/test_certificates.h"
#include "planb/v1/route_table.grpc.pb.h"
#include "server/testing/http_get.h"
#include "server/testing/running_server.h"
#include "version.h"

namespace planb::server {
namespace {

struct Refusal {
  std::vector<std::string> flags;
  const char* says;
};

// What a shell command writes to its stdout; expects status 0.
std::string Output(const std::string& command) {
  FILE* const output = popen(command.c_str(), "r");
  EXPECT_NE(output, nullptr);
  std::string text;
  char part[4096];
  while (const size_t got = fread(part, 1, sizeof(part), output)) {
    text.append(part, got);
  }
  EXPECT_EQ(pclose(output), 0) << command;
  return text;
}

TEST(Main, VersionIsOneLine) {
  EXPECT_EQ(Output("server/planb_server --version 2>&1"),
            absl::StrCat("planb_server ", kVersion, "\n"));
}

TEST(Main, ReadsAFileThenTheEnvironmentThenTheCommandLine) {
  const std::string file = TempPath("planb.yaml");
  std::ofstream(file) << "# of this host\n"
                         "max_routes: 5\n"
                         "max_lists: 6\n"
                         "max_watchers: 7\n"
                         "listen: [\"unix:///tmp/a\", \"[::1]:1\"]\n"
                         "drain_timeout: 7s\n"
                         "history_bytes: 3072KiB\n"
                         "update_memory_bytes: 1000\n"
                         "empty_table_ready: false\n";
  const std::string printed = Output(
      absl::StrCat("PLANB_MAX_LISTS=8 PLANB_MAX_WATCHERS=9 PLANB_CONFIG=", file,
                   " server/planb_server config print --max_watchers=10"));
  for (const char* line :
       {"\nmax_routes: \"5\"\n", "\nmax_lists: \"8\"\n",
        "\nmax_watchers: \"10\"\n", "\nlisten: \"unix:///tmp/a,[::1]:1\"\n",
        "\nhistory_bytes: \"3MiB\"\n", "\nupdate_memory_bytes: \"1000\"\n",
        "\ndrain_timeout: \"7s\"\n", "\nempty_table_ready: \"false\"\n",
        "\n# max_replacements: \"16\"\n", "\n# config: \"/"}) {
    EXPECT_TRUE(absl::StrContains(printed, line)) << line << printed;
  }
  // What is printed can be read again.
  std::ofstream(file) << printed;
  EXPECT_EQ(
      Output(absl::StrCat("server/planb_server config print --config ", file)),
      printed);
  EXPECT_EQ(Output(absl::StrCat("server/planb_server --check_config --config=",
                                file)),
            "the configuration is sound\n");
}

TEST(Main, RefusesAConfigurationWithFileLineAndKey) {
  const std::string file = TempPath("wrong.yaml");
  for (const auto& [text, says] :
       std::vector<std::pair<std::string, std::string>>{
           {"a\n", ":1: is not a mapping"},
           {"max_routes: 5\nmax_rotues: 6\n", ":2: unknown key \"max_rotues\""},
           {"\n\nmax_routes: many\n", ":3: max_routes: "},
           {"max_routes: {a: 1}\n", ":1: max_routes: needs one value"},
           {"max_routes:\n", ":1: max_routes: needs one value"},
           {"listen:\n", ":1: listen: needs one value, or a sequence"},
           {"listen: [[a]]\n", ":1: listen: has a value that is no scalar"},
           {"max_routes: 1\nmax_routes: 2\n",
            ":2: \"max_routes\" is there twice"},
           {"max_routes: [1\n", ":2: "},
           {"v: 1\n", "unknown key \"v\""},
           {"max_routes: 5\n---\nmax_lists: 6\n", ":3: a second document"},
           {"---\n---\nbogus: 1\n", ":3: a second document"},
           {"max_routes: 5\n...\nbogus: 1\n", ":3: a second document"},
           {"max_routes: 5\n...\nbogus: [\n", ":4: "},
           {"config: /a.yaml\n", ":1: config: names the file itself"},
           {"tls_client_ca: []\n", ":1: tls_client_ca: needs one value"},
           {"max_routes: [5]\n", ":1: max_routes: needs one value"},
           {"slow_batch: -1s\n", "--slow_batch must not be negative"}}) {
    std::ofstream(file) << text;
    ServerProcess refused({"--check_config", "--config=" + file});
    EXPECT_EQ(refused.Wait(), 1) << text;
    EXPECT_TRUE(absl::StrContains(refused.Log(), says))
        << text << refused.Log();
  }
  ServerProcess missing({"--config=/nowhere/planb.yaml"});
  EXPECT_EQ(missing.Wait(), 1);
  EXPECT_TRUE(absl::StrContains(missing.Log(), "/nowhere/planb.yaml"));
  ServerProcess variable({"--check_config"}, {"PLANB_MAX_ROUTES=many"});
  EXPECT_EQ(variable.Wait(), 1);
  EXPECT_TRUE(absl::StrContains(variable.Log(), "PLANB_MAX_ROUTES"))
      << variable.Log();
}

// The names of the flags that lines beginning with `before` have.
std::vector<std::string> FlagsIn(const std::string& text,
                                 absl::string_view before) {
  std::vector<std::string> names;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, before) || line.empty()) continue;
    names.emplace_back(line.substr(0, line.find_first_of("=: ")));
  }
  return names;
}

std::vector<std::string> AllFlags() {
  return FlagsIn(absl::StrReplaceAll(Output("server/planb_server config print"),
                                     {{"# ", ""}}),
                 "");
}

TEST(Main, HelpFitsAScreen) {
  for (const char* words :
       {"--help", "-h", "-help", "--listen=unix:///nowhere --help"}) {
    const std::string help =
        Output(absl::StrCat("server/planb_server ", words));
    EXPECT_TRUE(absl::StartsWith(help, "planb_server: ")) << help;
    EXPECT_TRUE(absl::StrContains(help, "longest-prefix-match")) << help;
    EXPECT_LE(std::count(help.begin(), help.end(), '\n'), 50) << help;
    for (const absl::string_view line : absl::StrSplit(help, '\n')) {
      EXPECT_LE(line.size(), 80U) << line;
    }
    const std::vector<std::string> names = FlagsIn(help, "  --");
    EXPECT_GE(names.size(), 12U) << help;
    const std::vector<std::string> all = AllFlags();
    for (const std::string& name : names) {
      EXPECT_EQ(std::count(all.begin(), all.end(), name), 1) << name;
    }
  }
}

TEST(Main, HelpHasEachFlagInOneTopic) {
  std::string help = Output("server/planb_server --help");
  help.erase(0, help.find("Topics"));
  help.erase(0, help.find('\n') + 1);
  std::vector<std::string> of_topics;
  for (const std::string& topic : FlagsIn(help, "  ")) {
    const std::vector<std::string> names = FlagsIn(
        Output(absl::StrCat("server/planb_server --help=", topic)), "  --");
    EXPECT_FALSE(names.empty()) << topic;
    of_topics.insert(of_topics.end(), names.begin(), names.end());
  }
  const std::string whole = Output("server/planb_server --help=all");
  EXPECT_EQ(FlagsIn(whole, "  --"), of_topics);
  for (const absl::string_view line : absl::StrSplit(whole, '\n')) {
    EXPECT_LE(line.size(), 80U) << line;
  }
  // Flags of the libraries are in none.
  std::sort(of_topics.begin(), of_topics.end());
  EXPECT_EQ(of_topics, AllFlags());
  ServerProcess unknown({"--help=nonsense"});
  EXPECT_EQ(unknown.Wait(), 1);
  EXPECT_TRUE(absl::StrContains(
      unknown.Log(), "\"nonsense\" is no topic; there are: all, config, "))
      << unknown.Log();
}

TEST(Main, ReadmeHasTheLimits) {
  constexpr char kPath[] = "README.md";
  constexpr char kHead[] =
      "| limits of | flags and their defaults |\n| --- | --- |\n";
  std::string table = kHead;
  for (absl::string_view topic :
       absl::StrSplit(Output("server/planb_server --help=all"), "\n\n")) {
    if (!absl::ConsumePrefix(&topic, "Limits of ")) continue;
    std::vector<std::string> flags;
    for (absl::string_view line : absl::StrSplit(topic, '\n')) {
      if (!absl::ConsumePrefix(&line, "  --")) continue;
      flags.push_back(absl::StrCat("`--", line, "`"));
    }
    absl::StrAppend(&table, "| ", topic.substr(0, topic.find(':')), " | ",
                    absl::StrJoin(flags, ", "), " |\n");
  }
  std::stringstream document;
  document << std::ifstream(kPath).rdbuf();
  std::string text = document.str();
  const size_t begin = text.find(kHead);
  ASSERT_NE(begin, std::string::npos);
  text.replace(begin, text.find("\n\n", begin) + 1 - begin, table);
  if (std::getenv("PLANB_WRITE_README") != nullptr) {
    std::ofstream(kPath) << text;
  }
  EXPECT_EQ(document.str(), text)
      << "PLANB_WRITE_README=1 bazel run //server:main_test -- "
         "--gtest_filter='*ReadmeHasTheLimits' writes it anew.";
}

TEST(Main, RefusesWithOneClearLine) {
  const std::string missing = TempPath("missing");
  const std::string broken = TempPath("broken.txt");
  std::ofstream(broken) << "2001:db8::/32 1\n2001:db8::1/32 2\n";
  const std::string socket = absl::StrCat("--listen=unix://", TempPath("r"));
  for (const Refusal& refusal : std::vector<Refusal>{
           {{"stray"}, "unexpected argument \"stray\""},
           {{"--flagfile=" + broken}, "unknown flag \"--flagfile\""},
           {{"-flagfile", broken}, "unknown flag \"--flagfile\""},
           {{socket, "--fromenv=simd"}, "unknown flag \"--fromenv\""},
           {{"--tryfromenv=simd"}, "unknown flag \"--tryfromenv\""},
           {{"--undefok=x", "--x"}, "unknown flag \"--undefok\""},
           {{socket, "--simd=sse9"}, "no search kernel \"sse9\""},
           {{socket, "--log_level=loud"}, "--log_level: \"loud\""},
           {{socket, absl::StrCat("--routes=", missing)}, "missing"},
           {{socket, absl::StrCat("--routes=", broken)}, ":2: "},
           {{socket, "--routes=x", "--generate=1"}, "cannot both be given"},
           {{socket, "--follow=unix:/x", "--routes=x"},
            "--follow and --routes cannot both be given"},
           {{socket, "--follow=unix:/x", "--generate_ipv4=1"},
            "--follow and --generate cannot both be given"},
           {{"--listen=nonsense"}, "\"nonsense\""},
           {{"--listen=unix://relative"}, "absolute"},
           {{"--listen="}, "listen"},
           {{socket, "--metrics_address=999.0.0.1:1"}, "999.0.0.1:1"},
           {{socket, "--generate=10", "--max_routes=5"}, "limit is 5"},
           {{socket, "--generate=18446744073709551615", "--generate_ipv4=1"},
            "limit is 4000000"},
           {{socket, absl::StrCat("--routes=", broken), "--routes_partial",
             "--max_routes=0"},
            "limit is 0"},
           // An address reserved for documentation: no machine has it.
           {{absl::StrCat(socket, ",203.0.113.1:50051"), "--insecure"},
            "cannot listen on 203.0.113.1:50051"},
           {{"--listen=[::]:0"}, "in plaintext"},
           {{socket, "--tls_cert=/x"}, "--tls_key must"},
           {{socket, "--etcd_key=/x"}, "--etcd_cert and --etcd_key go"},
           {{socket, "--follow_cert=/x"}, "--follow_cert and --follow_key go"},
           {{socket, "--otlp_cert=/x"}, "--otlp_cert and --otlp_key go"},
           {{socket, "--etcd_cert=/x", "--etcd_key=/y"},
            "--etcd_cert needs --etcd_ca"},
           {{socket, "--follow_cert=/x", "--follow_key=/y"},
            "--follow_cert needs --follow_ca"},
           {{socket, "--otlp_cert=/x", "--otlp_key=/y", "--check_config"},
            "--otlp_cert needs --otlp_ca"},
           {{socket, absl::StrCat("--authorization_policy=", broken)},
            "_broken.txt: no JSON"},
           {{socket, "--unix_socket_mode=0o660"}, "--unix_socket_mode"},
           {{socket, "--unix_socket_owner=planb"}, "--unix_socket_owner"},
           {{socket, "--peer_uids=0,planb"}, "--peer_uids: \"planb\""},
           {{socket, "--lookup_cpus=1023"}, "cannot run on core 1023"},
           {{socket, "--polling=kqueue"}, "--polling=\"kqueue\" is not one of"},
           {{socket, "--control_listen=nonsense"}, "\"nonsense\""},
           {{socket, "--control_listen=[::]:0"}, "in plaintext"},
           {{absl::StrCat("--listen=unix://", missing, "/s")},
            "No such file or directory"},
           {{absl::StrCat("--listen=unix://", broken)}, "no socket"},
       }) {
    // Another server on this machine may have the default port.
    std::vector<std::string> flags = {"--metrics_address="};
    flags.insert(flags.end(), refusal.flags.begin(), refusal.flags.end());
    ServerProcess process(flags);
    EXPECT_EQ(process.Wait(), 1) << refusal.says;
    std::string last;
    for (absl::string_view line : absl::StrSplit(process.Log(), '\n')) {
      if (!line.empty()) last = std::string(line);
    }
    EXPECT_EQ(last.rfind("planb_server: ", 0), 0U) << process.Log();
    EXPECT_NE(last.find(refusal.says), std::string::npos) << last;
  }
  // The file that was named as a socket is still there.
  EXPECT_EQ(unlink(broken.c_str()), 0);
}

// The lines that --check_config with these flags reports, after `planb_server:
// `.
std::vector<std::string> ProblemsOf(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"--check_config", "--metrics_address="});
  ServerProcess check(flags);
  const int code = check.Wait();
  std::vector<std::string> problems;
  for (absl::string_view line : absl::StrSplit(check.Log(), '\n')) {
    if (absl::ConsumePrefix(&line, "planb_server: ")) {
      problems.emplace_back(line);
    }
  }
  EXPECT_EQ(code, problems.empty() ? 0 : 1) << check.Log();
  return problems;
}

TEST(Main, ChecksWhatCanBeKnownBeforeTheStart) {
  const std::string missing = TempPath("missing");
  const std::string broken = TempPath("check.txt");
  std::ofstream(broken) << "2001:db8::/32 1\n2001:db8::1/32 2\n";
  TestAuthority authority;
  TestTlsFiles tls, expired, other;
  tls.SetIdentity(authority.Issue());
  tls.SetAuthority(authority.certificate());
  expired.SetIdentity(
      authority.Issue({.ends = absl::Now() - absl::Minutes(1)}));
  other.SetIdentity(authority.Issue());
  const std::string cert = "--tls_cert=" + tls.cert();
  const std::string key = "--tls_key=" + tls.key();
  for (const Refusal& refusal : std::vector<Refusal>{
           {{"--listen=nonsense"}, "--listen: \"nonsense\" is no address"},
           {{"--listen="}, "--listen needs an address"},
           {{"--listen=unix://relative"}, "--listen: unix://relative: needs"},
           {{"--listen=unix:///a,1.2.3.4:1"}, "--listen: will not listen on"},
           {{"--control_listen=[::]:0"}, "--control_listen: will not listen"},
           {{"--control_listen=a:70000"}, "--control_listen: \"a:70000\" is"},
           {{"--health_address=unix:///h"}, "--health_address: \"unix:///h\""},
           {{"--health_address=h"}, "--health_address: \"h\" is no address"},
           {{"--metrics_address=localhost:1"},
            "--metrics_address: \"localhost"},
           {{"--tls_cert=" + missing, key}, "--tls_cert "},
           {{cert}, "--tls_cert and --tls_key must be given both"},
           {{cert, "--tls_key=" + other.key()}, "--tls_key "},
           {{"--tls_cert=" + expired.cert(), "--tls_key=" + expired.key()},
            "expired at"},
           {{cert, key, "--tls_client_ca=" + broken}, "--tls_client_ca "},
           {{"--authorization_policy=" + broken}, "--authorization_policy="},
           {{"--authorization_policy=" + missing}, "--authorization_policy="},
           {{"--simd=sse9"}, "--simd: no search kernel \"sse9\""},
           {{"--lookup_cpus=0,x"}, "--lookup_cpus: list of cores"},
           {{"--lookup_cpus=1023"}, "--lookup_cpus: cannot run on core 1023"},
           {{"--polling=kqueue"}, "--polling=\"kqueue\""},
           {{"--log_level=loud"}, "--log_level: \"loud\""},
           {{"--log_format=xml"}, "--log_format: \"xml\""},
           {{"--unix_socket_mode=9"}, "--unix_socket_mode: "},
           {{"--peer_uids=root"}, "--peer_uids: "},
           {{"--handshake_timeout=0"}, "--handshake_timeout must be positive"},
           {{"--max_control_calls=70"}, "--max_control_calls must be the sum"},
           {{"--store="}, "--store must be a path"},
           {{"--store=None"}, "--store=None: write none, or ./None"},
           {{"--store=etcd://a:b/p"}, "--store: member: \"a:b\""},
           {{"--store=etcd://a:1"}, "--store: must be etcd://"},
           {{"--store=etcd://a:1/p", "--etcd_user=u"}, "--etcd_user and"},
           {{"--store=etcd://a:1/p", "--etcd_user=u",
             "--etcd_password_file=" + missing},
            "--etcd_password_file: "},
           {{"--store=etcd://a:1/p", "--etcd_ca=" + broken}, "--etcd_ca "},
           {{"--store=/tmp"}, "--store=/tmp is a directory: name a file in"},
           {{"--store=" + missing + "/x.db"}, "missing is no directory"},
           {{"--store_sync=half"}, "--store_sync: \"half\""},
           {{"--store=none", "--cache=/c"}, "--cache is for"},
           {{"--follow_ca=/c"}, "--follow_ca has no effect without --follow"},
           {{"--store=/s", "--etcd_ca=/c"}, "--etcd_ca has no effect without"},
           {{"--etcd_user=u"}, "--etcd_user has no effect without --store=et"},
           {{"--etcd_password_file=/f"}, "--etcd_password_file has no effec"},
           {{"--follow=nonsense"}, "--follow: \"nonsense\" has no port"},
           {{"--follow=a:1", "--store=/s"}, "--follow and --store exclude"},
           {{"--follow=a:1"}, "--follow: will not take tables from a:1 in"},
           {{"--follow=dns:///127.0.0.1.example:1"}, "--follow: will not take"},
           {{"--store=etcd://[::1]:1,a:1/p", "--etcd_user=u",
             "--etcd_password_file=" + broken},
            "--etcd_user: will not send the password to [::1]:1,a:1 in"},
           {{"--follow=a:1", "--follow_ca=" + tls.ca(),
             "--follow_cert=" + expired.cert(),
             "--follow_key=" + expired.key()},
            "--follow_cert "},
           {{"--otlp_endpoint=collector"}, "--otlp_endpoint: \"collector\""},
           {{"--otlp_endpoint=c:1", "--otlp_ca=" + missing}, "--otlp_ca "},
           {{"--routes=" + missing}, "--routes: "},
           {{"--routes=" + broken}, "--routes_partial starts with the rest"},
           {{"--drain_timeout=-1s"}, "--drain_timeout must not be negative"},
       }) {
    const std::vector<std::string> problems = ProblemsOf(refusal.flags);
    ASSERT_EQ(problems.size(), 1U) << refusal.says;
    EXPECT_TRUE(absl::StrContains(problems[0], refusal.says)) << problems[0];
  }
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{
           {"--follow=localhost:1"},
           {"--follow=unix:/s"},
           {"--follow=a:1", "--insecure"},
           {"--follow=a:1", "--insecure", cert, key},
           {"--follow=a:1", "--follow_ca=" + tls.ca()},
           {"--store=etcd://a:1/p"},
           {"--store=etcd://127.0.0.1:1,[::1]:1/p", "--etcd_user=u",
            "--etcd_password_file=" + broken},
           {"--store=etcd://a:1/p", "--etcd_user=u", "--insecure",
            "--etcd_password_file=" + broken}}) {
    EXPECT_EQ(ProblemsOf(flags), std::vector<std::string>()) << flags[0];
  }
  // Each problem has a line.
  EXPECT_EQ(ProblemsOf({"--listen=nonsense,unix://x", "--simd=sse9",
                        "--lookup_cpus=x", "--slow_batch=-1s",
                        "--follow=nonsense", "--tls_key=" + missing})
                .size(),
            7U);
  unlink(broken.c_str());
}

TEST(Main, StartsWithoutRoutesOnlyIfAllowed) {
  const std::string file = TempPath("start.routes");
  const std::string record =
      std::string("\0\0\0\0\0\x0b\0\0\0\0\0\1x", 13);  // OSPFv2
  const std::string flags[] = {
      absl::StrCat("--listen=unix://", TempPath("start.sock")),
      "--routes=" + file, "--store=none", "--metrics_address="};
  // The log of a start with the flag `more`, which serves or ends.
  const auto start = [&](const std::string& text, const std::string& more,
                         bool serves) {
    std::ofstream(file) << text;
    ServerProcess process({flags[0], flags[1], flags[2], flags[3], more});
    if (serves) {
      EXPECT_TRUE(process.AwaitServing()) << text << process.Log();
    } else {
      EXPECT_EQ(process.Wait(), 1) << text << process.Log();
    }
    return process.Log();
  };
  const std::string partial = "--routes_partial", empty = "--allow_empty";
  for (const char* text : {"", "# none\n"}) {
    for (const std::string& more : {std::string("--insecure"), partial}) {
      EXPECT_TRUE(absl::StrContains(start(text, more, false),
                                    "no routes in it; --allow_empty"));
    }
    start(text, empty, true);
  }
  for (const std::string& more : {std::string("--insecure"), partial, empty}) {
    EXPECT_TRUE(absl::StrContains(start(record + record, more, false),
                                  "no route: 2 records ignored (2 OSPFv2)"));
    EXPECT_TRUE(absl::StrContains(
        start("10.0.0.0/8 1 2\n2001:db8::/32 x\n", more, false),
        absl::StrCat(file, ":1: all 2 lines are malformed: ")));
  }
  const std::string bad = "10.0.0.0/8 1\nnonsense\n";
  EXPECT_TRUE(absl::StrContains(start(bad, empty, false),
                                "--routes_partial starts with the rest"));
  EXPECT_TRUE(absl::StrContains(start(bad, partial, true),
                                "problems=\"1 records malformed\""));
  unlink(file.c_str());
}

TEST(Main, ChecksWithoutOpeningAnything) {
  const std::string socket = TempPath("check.sock");
  const std::string store = TempPath("check.db");
  const std::string cache = TempPath("check_cache");
  const std::string pipe = TempPath("check.pipe");
  const std::string routes = TempPath("check_sound.txt");
  std::ofstream(routes) << "2001:db8::/32 1\n";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  TestAuthority authority;
  TestTlsFiles tls;
  tls.SetIdentity(authority.Issue());
  tls.SetAuthority(authority.certificate());
  const std::string listen = absl::StrCat("--listen=unix://", socket);
  // The other servers do not exist; addresses are those of no machine.
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{
           {},
           {listen, "--store=" + store, "--routes=" + routes, "--simd=scalar",
            "--lookup_threads=2"},
           {listen, "--follow=unix:///nowhere/s", "--cache=" + cache},
           {listen, "--follow=dns:///planb.invalid:50051",
            "--follow_ca=" + tls.ca()},
           {listen, "--store=etcd://203.0.113.1:1,[2001:db8::1]:1/p",
            "--cache=" + cache, "--etcd_ca=" + tls.ca(),
            "--etcd_cert=" + tls.cert(), "--etcd_key=" + tls.key()},
           {"--listen=203.0.113.1:1,host.invalid:1",
            "--control_listen=unix://" + socket, "--health_address=[::]:1",
            "--metrics_address=203.0.113.1:2", "--tls_cert=" + tls.cert(),
            "--tls_key=" + tls.key(), "--tls_client_ca=" + tls.ca(),
            "--store=none", "--routes=" + pipe},
           {listen, "--store=none", "--otlp_endpoint=203.0.113.1:4317",
            "--otlp_ca=" + tls.ca()}}) {
    const std::vector<std::string> problems = ProblemsOf(flags);
    EXPECT_TRUE(problems.empty()) << problems[0];
  }
  for (const std::string& path : {socket, store, store + "-mark", cache}) {
    EXPECT_NE(access(path.c_str(), F_OK), 0) << path;
  }
  // A store that another server holds is not touched.
  ServerProcess holder(
      {listen, "--metrics_address=", "--store=" + store, "--generate=3"});
  ASSERT_TRUE(holder.AwaitServing()) << holder.Log();
  EXPECT_TRUE(ProblemsOf({listen, "--store=" + store}).empty());
  holder.Kill(SIGTERM);
  EXPECT_EQ(holder.Wait(), 0);
  for (const char* end : {"", "-mark", "-wal", "-shm"}) {
    unlink((store + end).c_str());
  }
  unlink(pipe.c_str());
  unlink(routes.c_str());
}

TEST(Main, UnknownFlagIsRefused) {
  ServerProcess process({"--no_such_flag=1"});
  EXPECT_EQ(process.Wait(), 1);
  EXPECT_NE(process.Log().find("no_such_flag"), std::string::npos);
}

TEST(Main, DrainsOnSigterm) {
  for (int signal : {SIGTERM, SIGINT}) {
    const std::string socket = TempPath("drain.sock");
    ServerProcess process({absl::StrCat("--listen=unix://", socket),
                           "--metrics_address=", "--generate=100"});
    ASSERT_TRUE(process.AwaitServing()) << process.Log();
    // An open, idle stream does not delay the drain.
    const auto channel =
        RunningServer::Connect(absl::StrCat("unix://", socket));
    const auto stub = v1::RouteLookup::NewStub(channel);
    grpc::ClientContext context;
    const auto stream = stub->BatchLookup(&context);
    v1::BatchLookupResponse response;
    ASSERT_TRUE(stream->Write({}));
    ASSERT_TRUE(stream->Read(&response));
    process.Kill(signal);
    EXPECT_FALSE(stream->Read(&response));
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(process.Wait(), 0);
    EXPECT_NE(process.Log().find("drained"), std::string::npos);
    EXPECT_NE(access(socket.c_str(), F_OK), 0) << "socket left behind";
  }
}

TEST(Main, TellsItsSupervisorWhenItServesAndWhenItDrains) {
  const std::string path = TempPath("notify.sock");
  for (const bool abstract : {false, true}) {
    unlink(path.c_str());
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const timeval patience = {.tv_sec = 60, .tv_usec = 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (abstract) address.sun_path[0] = '\0';
    const auto size =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
    const auto next = [fd] {
      char text[64];
      const ssize_t got = recv(fd, text, sizeof(text), 0);
      return std::string(text, static_cast<size_t>(std::max<ssize_t>(got, 0)));
    };
    ServerProcess server(
        {absl::StrCat("--listen=unix://", TempPath("told.sock")),
         "--metrics_address=", "--store=none"},
        {absl::StrCat("NOTIFY_SOCKET=",
                      abstract ? "@" + path.substr(1) : path)});
    EXPECT_EQ(next(), "READY=1");
    server.Kill(SIGTERM);
    EXPECT_EQ(next(), "STOPPING=1");
    EXPECT_EQ(server.Wait(), 0);
    close(fd);
  }
}

TEST(Main, ReloadsOnSighupAndByACall) {
  const std::string file = TempPath("reload.yaml");
  const std::string socket = TempPath("reload.sock");
  const auto awaits = [](const ServerProcess& server, const char* line) {
    EXPECT_TRUE(Await([&] { return absl::StrContains(server.Log(), line); }))
        << server.Log();
  };
  TestAuthority authority;
  TestTlsFiles tls;
  tls.SetIdentity(authority.Issue());
  std::ofstream(file) << "max_routes: 5\n";
  ServerProcess server({absl::StrCat("--listen=unix://", socket, ",[::1]:0"),
                        "--metrics_address=", "--store=none",
                        "--config=" + file, "--tls_cert=" + tls.cert(),
                        "--tls_key=" + tls.key(), "--tls_reload_interval=1h"});
  ASSERT_TRUE(server.AwaitServing()) << server.Log();

  std::ofstream(file) << "max_routes: 6\nlog_level: debug\n";
  tls.SetIdentity(authority.Issue());
  server.Kill(SIGHUP);
  awaits(server, "take effect at the next start flags=max_routes");
  EXPECT_TRUE(absl::StrContains(server.Log(), "reloaded log_level=debug"));
  EXPECT_TRUE(absl::StrContains(server.Log(), "certificates reloaded"));

  std::ofstream(file) << "log_level: error\nmax_routs: 6\n";
  server.Kill(SIGHUP);
  awaits(server, ":2: unknown key");
  std::ofstream(file) << "log_level: loud\n";
  server.Kill(SIGHUP);
  awaits(server, "loud");
  // Still at debug, with the certificate of before.
  std::ofstream(file) << "log_level: info\n";
  tls.SetIdentity({"no certificate", "no key"});
  server.Kill(SIGHUP);
  awaits(server, "certificates not reloaded");

  // By a call, which says what came of it.
  const auto channel = grpc::CreateChannel(absl::StrCat("unix:", socket),
                                           grpc::InsecureChannelCredentials());
  const auto reload = [&](v1::ReloadResponse& response) {
    grpc::ClientContext call;
    return v1::RouteTable::NewStub(channel)->Reload(&call, {}, &response);
  };
  v1::ReloadResponse response;
  grpc::Status status = reload(response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(absl::StrContains(status.error_message(), tls.cert()))
      << status.error_message();
  tls.SetIdentity(authority.Issue());
  std::ofstream(file) << "max_routes: 7\nmax_tables: 2\n";
  status = reload(response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(std::vector<std::string>(response.need_restart().begin(),
                                     response.need_restart().end()),
            (std::vector<std::string>{"max_routes", "max_tables"}));
  std::ofstream(file) << "max_routs: 7\n";
  status = reload(response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(absl::StrContains(status.error_message(), ":1: unknown key"))
      << status.error_message();

  server.Kill(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

TEST(Main, AReloadWithOneUnusableFileChangesNothing) {
  const std::string file = TempPath("part.yaml");
  const std::string policy = TempPath("part.json");
  const std::string socket = TempPath("part.sock");
  const auto allow = [&](const char* more) {
    ReplaceFile(policy, absl::StrCat(R"({"name": "p", "allow_rules": [)"
                                     R"({"name": "r", "request": {"paths": [)"
                                     R"("/planb.v1.RouteTable/Reload")",
                                     more, "]}}]}"));
  };
  const auto allow_more = [&] {
    allow(R"(, "/planb.v1.RouteTable/GetTable")");
  };
  TestAuthority authority;
  TestTlsFiles tls;
  tls.SetIdentity(authority.Issue());
  TestTlsFiles otlp;
  otlp.SetAuthority(authority.certificate());
  otlp.SetIdentity(authority.Issue());
  std::ofstream(file) << "max_routes: 5\n";
  allow("");
  ServerProcess server(
      {absl::StrCat("--listen=unix://", socket, ",[::1]:0"),
       "--metrics_address=", "--store=none", "--config=" + file,
       "--tls_cert=" + tls.cert(), "--tls_key=" + tls.key(),
       "--tls_reload_interval=1h", "--authorization_policy=" + policy,
       "--authorization_reload_interval=1h", "--otlp_endpoint=unix:/nowhere",
       "--otlp_ca=" + otlp.ca(), "--otlp_cert=" + otlp.cert(),
       "--otlp_key=" + otlp.key()});
  ASSERT_TRUE(server.AwaitServing()) << server.Log();
  const auto stub = v1::RouteTable::NewStub(grpc::CreateChannel(
      absl::StrCat("unix:", socket), grpc::InsecureChannelCredentials()));
  const auto may_read = [&] {
    grpc::ClientContext call;
    v1::Table table;
    return stub->GetTable(&call, {}, &table).ok();
  };
  const auto reload = [&](v1::ReloadResponse& response) {
    grpc::ClientContext call;
    return stub->Reload(&call, {}, &response);
  };
  const auto denials = [&] {
    const std::vector<std::string> parts =
        absl::StrSplit(server.Log(), "call denied");
    return parts.size() - 1;
  };
  const auto reloaded = [&] {
    return absl::StrContains(server.Log(), "certificates reloaded") ||
           absl::StrContains(server.Log(), " reloaded log_level=");
  };
  v1::ReloadResponse response;
  EXPECT_FALSE(may_read());
  EXPECT_EQ(denials(), 1U);

  // All is new, and the key is another certificate's.
  std::ofstream(file) << "max_routes: 6\nlog_level: error\n";
  allow_more();
  const TestIdentity fresh = authority.Issue();
  tls.SetIdentity({fresh.certificate, authority.Issue().key});
  EXPECT_EQ(reload(response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_FALSE(may_read());
  EXPECT_FALSE(reloaded());
  // That is still logged: the level is the old one.
  EXPECT_EQ(denials(), 2U);

  // Certificate and key are good, and the policy is not.
  tls.SetIdentity(fresh);
  ReplaceFile(policy, "no policy");
  EXPECT_EQ(reload(response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_FALSE(reloaded());

  // All is good but the key for the collector.
  allow_more();
  const TestIdentity client = authority.Issue();
  otlp.SetIdentity({client.certificate, fresh.key});
  const grpc::Status refused = reload(response);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(absl::StrContains(refused.error_message(), "--otlp_key"))
      << refused.error_message();
  EXPECT_FALSE(may_read());
  EXPECT_FALSE(reloaded());
  otlp.SetIdentity(client);

  // All is good but the level.
  std::ofstream(file) << "max_routes: 6\nlog_level: loud\n";
  EXPECT_EQ(reload(response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_FALSE(may_read());
  EXPECT_FALSE(reloaded());

  std::ofstream(file) << "max_routes: 6\nlog_level: debug\n";
  const grpc::Status status = reload(response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.need_restart_size(), 1);
  EXPECT_TRUE(may_read());
  for (const char* line :
       {"certificates reloaded kind=server", "certificates reloaded kind=otlp",
        " reloaded log_level=debug"}) {
    EXPECT_TRUE(absl::StrContains(server.Log(), line)) << server.Log();
  }
}

TEST(Main, ShowsItsFlagsWhileItReloads) {
  const std::string socket = TempPath("shows.sock");
  ServerProcess server({absl::StrCat("--listen=unix://", socket),
                        "--metrics_address=127.0.0.1:0", "--store=none",
                        "--max_routes=12345"});
  ASSERT_TRUE(server.AwaitServing()) << server.Log();
  const int port = server.AwaitPortOf("metrics");
  std::atomic<bool> done = false;
  std::thread reloads([&] {
    const auto stub = v1::RouteTable::NewStub(grpc::CreateChannel(
        absl::StrCat("unix:", socket), grpc::InsecureChannelCredentials()));
    while (!done) {
      grpc::ClientContext call;
      v1::ReloadResponse response;
      EXPECT_TRUE(stub->Reload(&call, {}, &response).ok());
    }
  });
  for (int i = 0; i < 200; ++i) {
    const std::string page = HttpGet(port, "/statusz.json");
    EXPECT_TRUE(absl::StrContains(page, "\"value\":\"12345\"")) << page;
    if (testing::Test::HasFailure()) break;
  }
  done = true;
  reloads.join();
}

TEST(Main, ReplacesSocketOfKilledServerAndNoOther) {
  const std::string socket = TempPath("stale.sock");
  const std::vector<std::string> flags = {
      absl::StrCat("--listen=unix://", socket), "--metrics_address="};
  {
    ServerProcess first(flags);
    ASSERT_TRUE(first.AwaitServing()) << first.Log();
    first.Kill(SIGKILL);
    EXPECT_EQ(first.Wait(), -SIGKILL);
  }
  EXPECT_EQ(access(socket.c_str(), F_OK), 0);
  std::vector<std::string> generated = flags;
  generated.push_back("--generate=5");
  ServerProcess second(generated);
  ASSERT_TRUE(second.AwaitServing()) << second.Log();
  // A third server does not replace the socket of the second, which runs.
  const auto channel = RunningServer::Connect(absl::StrCat("unix://", socket));
  const auto stub = v1::RouteTable::NewStub(channel);
  const auto routes = [&] {
    grpc::ClientContext context;
    v1::Table table;
    EXPECT_TRUE(stub->GetTable(&context, {}, &table).ok());
    return table.routes_v6();
  };
  EXPECT_EQ(routes(), 5U);
  ServerProcess third(flags);
  EXPECT_EQ(third.Wait(), 1);
  EXPECT_NE(third.Log().find("another server listens"), std::string::npos);
  EXPECT_EQ(routes(), 5U);
}

TEST(Main, ThousandsOfConnectionsArePolledByEpoll) {
  struct Case {
    std::vector<std::string> flags, environment;
    const char* by;
  };
  for (const Case& c : std::vector<Case>{
           {{}, {}, " by=poll\n"},
           {{"--max_connections=1001"}, {}, " by=epoll\n"},
           {{"--max_connections=0"}, {}, " by=epoll\n"},
           {{"--max_connections=1001", "--polling=poll"}, {}, " by=poll\n"},
           {{"--polling=epoll"}, {}, " by=epoll\n"},
           {{}, {"GRPC_POLL_STRATEGY=epoll1"}, " by=epoll1\n"}}) {
    const std::string socket = TempPath("polling.sock");
    std::vector<std::string> flags = {absl::StrCat("--listen=unix://", socket),
                                      "--metrics_address="};
    flags.insert(flags.end(), c.flags.begin(), c.flags.end());
    const ServerProcess process(flags, c.environment);
    ASSERT_TRUE(process.AwaitServing()) << process.Log();
    EXPECT_TRUE(absl::StrContains(process.Log(), c.by)) << process.Log();
    const auto channel =
        RunningServer::Connect(absl::StrCat("unix://", socket));
    grpc::ClientContext context;
    v1::LookupRequest request;
    request.add_addresses()->set_text("2001:db8::1");
    v1::LookupResponse response;
    EXPECT_TRUE(v1::RouteLookup::NewStub(channel)
                    ->Lookup(&context, request, &response)
                    .ok());
  }
}

TEST(Main, AControlAddressServesAllButLookups) {
  const std::string lookups = TempPath("lookups.sock");
  const std::string control = TempPath("control.sock");
  ServerProcess process({absl::StrCat("--listen=unix://", lookups),
                         absl::StrCat("--control_listen=unix://", control),
                         "--metrics_address="});
  ASSERT_TRUE(process.AwaitServing()) << process.Log();
  const auto channel = RunningServer::Connect(absl::StrCat("unix://", control));
  {
    grpc::ClientContext context;
    v1::UpdateRoutesRequest request;
    auto* const update = request.add_updates();
    update->set_op(v1::RouteUpdate::OP_UPSERT);
    update->mutable_prefix()->set_text("2001:db8::/32");
    update->set_next_hop_id(7);
    request.set_ack(v1::ACK_VISIBLE);
    v1::UpdateRoutesResponse response;
    const auto status = v1::RouteTable::NewStub(channel)->UpdateRoutes(
        &context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  const auto lookup = [](const std::shared_ptr<grpc::Channel>& to,
                         v1::LookupResponse& response) {
    grpc::ClientContext context;
    v1::LookupRequest request;
    request.add_addresses()->set_text("2001:db8::1");
    return v1::RouteLookup::NewStub(to)
        ->Lookup(&context, request, &response)
        .error_code();
  };
  v1::LookupResponse response;
  EXPECT_EQ(lookup(channel, response), grpc::StatusCode::UNIMPLEMENTED);
  const auto reader = RunningServer::Connect(absl::StrCat("unix://", lookups));
  ASSERT_EQ(lookup(reader, response), grpc::StatusCode::OK);
  EXPECT_EQ(response.results(0).next_hop_id(), 7U);
  process.Kill(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_NE(access(control.c_str(), F_OK), 0) << "socket left behind";
}

TEST(Main, OtherThreadsKeepOffTheCoresOfLookups) {
  cpu_set_t mask;
  ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
  if (CPU_COUNT(&mask) < 2) GTEST_SKIP() << "there is one core only";
  int cpu = 0;
  while (!CPU_ISSET(cpu, &mask)) ++cpu;
  ServerProcess process(
      {absl::StrCat("--listen=unix://", TempPath("cores.sock")),
       "--metrics_address=", absl::StrCat("--lookup_cpus=", cpu)});
  ASSERT_TRUE(process.AwaitServing()) << process.Log();
  int lookups = 0, others = 0;
  for (const auto& thread : std::filesystem::directory_iterator(
           absl::StrCat("/proc/", process.pid(), "/task"))) {
    // One that was there for the start may be gone.
    if (sched_getaffinity(std::stoi(thread.path().filename()), sizeof(mask),
                          &mask) != 0) {
      EXPECT_EQ(errno, ESRCH);
      continue;
    }
    ++(CPU_ISSET(cpu, &mask) ? lookups : others);
  }
  EXPECT_EQ(lookups, 1);
  EXPECT_GT(others, 5);
}

}  // namespace
}  // namespace planb::server
