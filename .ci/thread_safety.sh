#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Checks the lock annotations of all sources but tests with clang's
# -Wthread-safety: GCC reads none of them. Ends with 1 if there are findings.
#
#   .ci/thread_safety.sh           all sources of the rooms
#   .ci/thread_safety.sh FILE...   these
#   .ci/thread_safety.sh --besides QUERY   all but what Bazel's targets are made of:
#                                  builds by clang, which check it themselves
#
# Headers that the rooms do not own are read once, into a precompiled header: they
# take most of the time. Generated headers are those of the last build, in
# bazel-bin or in the folder that PLANB_GENERATED names.
set -euo pipefail
cd "$(dirname "$0")/.."

generated=${PLANB_GENERATED:-bazel-bin}
work=$(mktemp -d /tmp/planb_thread_safety.XXXXXX)
trap 'rm -rf "$work"' EXIT

flags=(-std=c++20 -Wno-everything -Wthread-safety -Werror=thread-safety
  -DFMT_HEADER_ONLY -DSPDLOG_FMT_EXTERNAL -DSPDLOG_HEADER_ONLY
  -iquote . -iquote "$generated")
for folder in client/planbctl/proto proto third_party/{etcd,googleapis} \
  third_party/{grpc_health,grpc_reflection,opentelemetry} server/{observe,store}; do
  flags+=(-isystem "$generated/$folder")
done

mapfile -t sources < <(
  git ls-files '*.h' '*.cc' | grep -E '^(base|client|follow|lpm|proto|server)/' |
    grep -vE '_test\.cc$|/testing/|_fuzz(_main|er)?\.cc$')
if (($# > 0)) && [[ $1 != --besides ]]; then
  files=("$@")
else
  built=''
  [[ ${1:-} != --besides ]] ||
    built=$(bazel query --noshow_progress "kind('source file', deps($2))" | sed 's,^//,,; s,:,/,')
  mapfile -t files < <(printf '%s\n' "${sources[@]}" | grep -E '\.cc$' |
    grep -vxFf <(printf '%s\n' "$built"))
fi

# Included by two sources or more, and in no folder of the tree.
grep -hE '^#include ' "${sources[@]}" | awk '{print $2}' | sort | uniq -d |
  while read -r name; do
    path=${name//[<>\"]/}
    [[ -e $path || $path =~ ^(immintrin\.h|version\.h)$ ]] || echo "#include $name"
  done >"$work/others.h"
clang++-14 "${flags[@]}" -x c++-header "$work/others.h" -o "$work/others.pch"

status=0
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" \
  clang++-14 -fsyntax-only "${flags[@]}" -include-pch "$work/others.pch" ||
  status=1
echo "thread safety: ${#files[@]} files"
exit "$status"
