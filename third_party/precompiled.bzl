# SPDX-License-Identifier: Apache-2.0

"""Headers that gcc compiles once for all sources that use them."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    compiled = ctx.actions.declare_file(ctx.label.name + ".h.gch")
    ctx.actions.write(header, "".join(["#include <%s>\n" % h for h in ctx.attr.headers]))
    deps = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    context = deps.compilation_context
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    arguments = cc_common.get_memory_inefficient_command_line(
        feature_configuration = features,
        action_name = CPP_COMPILE_ACTION_NAME,
        variables = cc_common.create_compile_variables(
            cc_toolchain = toolchain,
            feature_configuration = features,
            source_file = header.path,
            output_file = compiled.path,
            # As the sources are compiled: gcc takes it for no others.
            user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts +
                                 ctx.attr.copts +
                                 # Remembers the headers for -fpch-deps.
                                 ["-MD", "-MF", "/dev/null"],
            use_pic = True,
            preprocessor_defines = context.defines,
            quote_include_directories = context.quote_includes,
            system_include_directories = context.system_includes,
        ),
    )
    ctx.actions.run(
        mnemonic = "CppPrecompile",
        executable = cc_common.get_tool_for_action(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
        ),
        arguments = ["-x", "c++-header"] + arguments,
        inputs = depset([header], transitive = [toolchain.all_files, context.headers]),
        outputs = [compiled],
        use_default_shell_env = True,
    )
    own = CcInfo(compilation_context = cc_common.create_compilation_context(
        headers = depset([header, compiled]),
    ))
    return [cc_common.merge_cc_infos(cc_infos = [own, deps])]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    doc = "name.h, for the option -include, and what gcc makes of it.",
    attrs = {
        "headers": attr.string_list(doc = "what name.h includes"),
        "copts": attr.string_list(doc = "as those of the sources"),
        "deps": attr.label_list(doc = "whose headers they are", providers = [CcInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    provides = [CcInfo],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
