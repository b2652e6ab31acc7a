# SPDX-License-Identifier: Apache-2.0

# find_package(planb) defines planb::planb, which needs C++20.
include(CMakeFindDependencyMacro)
find_dependency(PkgConfig)
pkg_check_modules(planb_pc REQUIRED IMPORTED_TARGET planb)
if(NOT TARGET planb::planb)
  add_library(planb::planb INTERFACE IMPORTED)
  target_link_libraries(planb::planb INTERFACE PkgConfig::planb_pc)
  target_compile_features(planb::planb INTERFACE cxx_std_20)
endif()
