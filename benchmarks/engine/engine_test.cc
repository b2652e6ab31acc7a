#include "benchmarks/engine/engine.h"

#include <gtest/gtest.h>

#include "benchmarks/rivals/baseline_check.h"
#include "lpm/synthetic/synthetic.h"

namespace planb {
namespace {

TEST(Engines, AnswerExactly) {
  const std::vector<Route> ipv6 = SyntheticTable({.ipv6_routes = 5000});
  const std::vector<Route> ipv4 =
      SyntheticTable({.ipv6_routes = 0, .ipv4_routes = 5000});
  for (const char* name :
       {"planb", "planb:scalar", "paper", "paper:merged:8", "paper:distinct",
        "paper:scalar:16", "dir24", "dir24:scalar", "reference:drop:scalar"}) {
    SCOPED_TRACE(name);
    const auto engine = MakeEngine(name);
    ASSERT_TRUE(engine.ok()) << engine.status();
    EXPECT_EQ(engine->name, name);
    const bool v4 = engine->name.substr(0, 5) == "dir24";
    std::vector<Route> routes = v4 ? ipv4 : ipv6;
    std::erase_if(routes, [&](const Route& r) {
      return r.prefix.length() > engine->max_length;
    });
    ExpectLikeReference(engine->build, v4 ? Family::kIpv4 : Family::kIpv6,
                        routes);
  }
}

TEST(Engines, OnlyDropLeavesRoutesOut) {
  EXPECT_EQ(MakeEngine("reference")->max_length, 128);
  EXPECT_EQ(MakeEngine("reference:drop")->max_length, 64);
}

TEST(Engines, NamesThatMeanNothing) {
  for (const char* name :
       {"", "fast", "planb:sse9", "planb:avx2:avx2", "paper:5", "paper:sse9",
        "reference:merged", "dir24:drop"}) {
    EXPECT_EQ(MakeEngine(name).status().code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
}

TEST(Engines, CanBeAdded) {
  const auto factory = [](const std::vector<std::string>& options) {
    Engine engine;
    engine.max_length = static_cast<int>(options.size());
    return absl::StatusOr<Engine>(engine);
  };
  EXPECT_TRUE(RegisterEngine("mine", factory));
  EXPECT_EQ(MakeEngine("mine:a:b")->max_length, 2);
}

}  // namespace
}  // namespace planb
