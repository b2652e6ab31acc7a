// SPDX-License-Identifier: Apache-2.0

#include "server/observe/build_info.h"

#include "version.h"

namespace planb::server {
namespace {

#ifdef __clang__
constexpr absl::string_view kCompiler = "clang " __clang_version__;
#else
constexpr absl::string_view kCompiler = "gcc " __VERSION__;
#endif

}  // namespace

BuildInfo GetBuildInfo() { return {kVersion, kCompiler}; }

}  // namespace planb::server
