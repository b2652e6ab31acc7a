// SPDX-License-Identifier: Apache-2.0

// Runs planbctl as a child process and captures its output. planb_server runs
// beside it with a few routes, behind a proxy, which planbctl finds through its
// environment.

#ifndef PLANB_CLIENT_TESTING_PLANBCTL_FIXTURE_H_
#define PLANB_CLIENT_TESTING_PLANBCTL_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/testing/await.h"
#include "client/testing/misbehaving_proxy.h"
#include "client/testing/real_server_fixture.h"

namespace planb::client::testing {

// The exit code (-1 if killed) and output of a run.
struct Ended {
  int code = -1;
  std::string out;
  std::string err;
};

// Returns the text of a file.
inline std::string Slurp(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Returns the path of a scratch file of this test.
inline std::string Scratch(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/", name);
}

// Writes a scratch file and returns its path.
inline std::string Write(const std::string& name, const std::string& text) {
  const std::string path = Scratch(name);
  std::ofstream(path) << text;
  return path;
}

// Runs //client/planbctl in a shell, to its end; `arguments` are shell words
// and may redirect. Again if no batch of a short `bench` was answered in time,
// as happens on a machine that is held up.
inline Ended Ctl(const std::string& arguments, const std::string& input = "") {
  const std::string in = Write("stdin", input);
  const std::string out = Scratch("stdout");
  const std::string err = Scratch("stderr");
  Ended ended;
  SucceedsInThree([&] {
    const int status =
        system(absl::StrCat("<", in, " >", out, " 2>", err,
                            " client/planbctl/planbctl ", arguments)
                   .c_str());
    ended = {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
             .out = Slurp(out),
             .err = Slurp(err)};
    return !absl::StrContains(ended.err, "no batch was answered in time");
  });
  return ended;
}

// Runs planbctl, which must succeed, and returns its output.
inline std::string Do(const std::string& words, const std::string& input = "") {
  const Ended ended = Ctl(words, input);
  EXPECT_EQ(ended.code, 0) << words << "\n" << ended.err;
  return ended.out;
}

// Runs planbctl, which must end with `code` and say `why` on the standard
// error. Returns its output.
inline std::string Fails(int code, const std::string& words,
                         const std::string& why = "",
                         const std::string& input = "") {
  const Ended ended = Ctl(words, input);
  EXPECT_EQ(ended.code, code) << words << "\n" << ended.err;
  EXPECT_THAT(ended.err, ::testing::HasSubstr(why)) << words;
  return ended.out;
}

// As Fails(), with a timeout that a machine which is held up lets pass before
// the server's first answer.
inline void FailsInTime(int code, const std::string& words,
                        const std::string& why, const std::string& input = "") {
  Ended ended;
  EXPECT_TRUE(SucceedsInThree([&] {
    ended = Ctl(words, input);
    return ended.code == code && absl::StrContains(ended.err, why);
  })) << words
      << "\n"
      << ended.code << " " << ended.err;
}

class PlanbctlFixture : public RealServerFixture {
 protected:
  PlanbctlFixture() { setenv("PLANB_SERVER", proxy_.target().c_str(), 1); }

  void SetUp() override {
    Start("none", RoutesFile({{*Prefix::Parse("2001:db8::/32"), 5},
                              {*Prefix::Parse("2001:db8:1::/48"), 7},
                              {*Prefix::Parse("10.0.0.0/8"), 6}}));
  }

  std::vector<v1::UpdateRoutesRequest> Updates() const {
    return proxy_.Requests<v1::UpdateRoutesRequest>("UpdateRoutes");
  }

  MisbehavingProxy proxy_{target_};
};

}  // namespace planb::client::testing

#endif  // PLANB_CLIENT_TESTING_PLANBCTL_FIXTURE_H_
