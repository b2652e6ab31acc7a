# SPDX-License-Identifier: Apache-2.0

"""C++ from .proto files, by Debian's protoc and its C++ gRPC plugin.

Bazel's own cc_proto_library would build protobuf from source; this rule runs
the packaged compilers and wraps what they write in a cc_library.
"""

def _stem(src):
    return src[:-len(".proto")]

def cc_proto(name, srcs, root, deps = [], proto_deps = [], imports = [], grpc = False, visibility = None):
    """Generates a cc_library from .proto files.

    Args:
      name: the cc_library; the sources are filegroup name + "_srcs".
      srcs: .proto files of this package.
      root: import root of the files, relative to the workspace.
      deps: cc_proto libraries that the files import.
      proto_deps: the "_srcs" filegroups of those libraries.
      imports: the import roots of those libraries.
      grpc: also generate service stubs.
      visibility: as usual.
    """
    native.filegroup(name = name + "_srcs", srcs = srcs, visibility = visibility)
    headers = [_stem(s) + ".pb.h" for s in srcs]
    sources = [_stem(s) + ".pb.cc" for s in srcs]
    plugin = ""
    if grpc:
        headers += [_stem(s) + ".grpc.pb.h" for s in srcs]
        sources += [_stem(s) + ".grpc.pb.cc" for s in srcs]
        plugin = ("--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin " +
                  "--grpc_out=$(GENDIR)/%s " % root)
    native.genrule(
        name = name + "_gen",
        srcs = srcs + proto_deps,
        outs = headers + sources,
        cmd = ("/usr/bin/protoc -I%s -Ithird_party/googleapis -I/usr/include " % root +
               "".join(["-I%s " % i for i in imports]) +
               "--cpp_out=$(GENDIR)/%s " % root + plugin +
               " ".join(["$(location %s)" % s for s in srcs])),
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        # Generated code is not ours to warn about.
        copts = ["-w"],
        includes = ["."],
        deps = deps + ["//third_party:grpc" if grpc else "//third_party:protobuf"],
        visibility = visibility,
    )
