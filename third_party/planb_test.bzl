# SPDX-License-Identifier: Apache-2.0

"""The tests of this repository."""

_EVERY_TEST = [
    "//third_party:absl",
    "//third_party:gtest_main",
]

def planb_test(name, srcs = None, deps = [], size = "small", **kwargs):
    """A test program of GoogleTest.

    Args:
      name: of the program.
      srcs: [name + ".cc"] unless given.
      deps: besides abseil and GoogleTest with its main().
      size: as in cc_test; small unless given.
      **kwargs: as in cc_test.
    """
    native.cc_test(
        name = name,
        size = size,
        srcs = srcs or [name + ".cc"],
        deps = deps + _EVERY_TEST,
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
