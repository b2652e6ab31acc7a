# SPDX-License-Identifier: Apache-2.0

"""The tests of this repository."""

load("//third_party:precompiled.bzl", "precompiled_header")

_EVERY_TEST = [
    "//third_party:absl",
    "//third_party:gtest_main",
]

# .bazelrc compiles the tests of these rooms without optimization.
_UNOPTIMIZED = ["base", "client", "deploy", "server"]

# Libraries with calls in their headers.
_CALLS = [
    ":calls",
    ":client",
    "//client",
    "//client/testing:misbehaving_proxy",
    "//client/testing:planbctl_fixture",
    "//client/testing:real_server_fixture",
    "//proto:planb_v1",
    "//server/testing:attacked_server",
    "//server/testing:calls",
    "//server/testing:fake_leader",
    "//server/testing:model",
    "//server/testing:running_server",
    "//server/testing:stored_server",
]

def test_header(name, headers = [], copts = [], deps = []):
    """What most tests include, which takes most of their time, compiled once.

    Args:
      name: of the header.
      headers: besides those of abseil and GoogleTest.
      copts: the level of optimization of the tests.
      deps: whose headers they are.
    """
    precompiled_header(
        name = name,
        testonly = True,
        copts = copts,
        headers = [
            "gmock/gmock.h",
            "gtest/gtest.h",
            "memory",
            "string",
            "thread",
            "vector",
            "absl/status/statusor.h",
            "absl/strings/str_cat.h",
            "absl/strings/str_format.h",
            "absl/time/clock.h",
            "absl/time/time.h",
        ] + headers,
        visibility = ["//visibility:public"],
        deps = deps,
    )

def _header(deps):
    """The header for a test of the package that is read: its package and name."""
    package = native.package_name()
    if package.split("/")[0] not in _UNOPTIMIZED or package == "server/lookup":
        return "third_party", "optimized_test"
    if [dep for dep in deps if dep in _CALLS]:
        return "proto", "call_test"
    return "third_party", "test"

def planb_test(name, srcs = None, deps = [], size = "small", copts = [], **kwargs):
    """A test program of GoogleTest.

    Args:
      name: of the program.
      srcs: [name + ".cc"] unless given.
      deps: besides abseil and GoogleTest with its main().
      size: as in cc_test; small unless given.
      copts: as in cc_test.
      **kwargs: as in cc_test.
    """
    package, header = _header(deps)
    native.cc_test(
        name = name,
        size = size,
        srcs = srcs or [name + ".cc"],
        copts = copts + select({
            "//third_party:precompiled_headers": [
                # Bazel compiles again what depends on a header of ours that changed.
                "-fpch-deps",
                "-include",
                "%s/%s.h" % (package, header),
            ],
            "//conditions:default": [],
        }),
        deps = deps + _EVERY_TEST + select({
            "//third_party:precompiled_headers": ["//%s:%s" % (package, header)],
            "//conditions:default": [],
        }),
        **kwargs
    )

def planb_fuzzer(name, deps = []):
    """name.cc under libFuzzer, with --config=asan: third_party/fuzz.sh runs it.

    Args:
      name: of the program, and of its source.
      deps: as in cc_binary.
    """
    native.cc_binary(
        name = name,
        testonly = True,
        srcs = [name + ".cc"],
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = deps,
    )
