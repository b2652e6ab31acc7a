#include "server/build_info.h"

namespace planb::server {
namespace {

// Raised by hand with every release.
constexpr absl::string_view kVersion = "0.6.0";

#ifdef __clang__
constexpr absl::string_view kCompiler = "clang " __clang_version__;
#else
constexpr absl::string_view kCompiler = "gcc " __VERSION__;
#endif

}  // namespace

BuildInfo GetBuildInfo() { return {kVersion, kCompiler}; }

}  // namespace planb::server
