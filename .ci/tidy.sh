#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Checks sources with clang-tidy, as .clang-tidy says; tests are left out.
#
#   .ci/tidy.sh            what differs from the last landed state
#   .ci/tidy.sh --all      everything
#   .ci/tidy.sh FILE...    these
#
# The landed state is PLANB_BASE, or what this branch has in common with origin/main.
# In a clone whose origin/main is the branch itself, it is the newest commit that is
# four hours older than the last one. A header is checked with the .cc file of its name.
# Generated headers are those of the last build.
set -euo pipefail
cd "$(dirname "$0")/.."
rooms=('base/*.cc' 'client/*.cc' 'examples/*.cc' 'follow/*.cc' 'lpm/*.cc' 'proto/wire/*.cc'
  'server/*.cc')

changed() {
  local base=${PLANB_BASE:-$(git merge-base HEAD origin/main 2>/dev/null || true)}
  if [[ -z $base || $base == "$(git rev-parse HEAD)" ]]; then
    base=$(git rev-list -1 \
      --before="@$(($(git show -s --format=%ct HEAD) - 4 * 3600))" HEAD)
  fi
  # Without a state to compare with, everything differs.
  git diff --name-only --diff-filter=d "${base:-$(git hash-object -t tree /dev/null)}" |
    sed -n 's/\.\(cc\|h\)$/.cc/p' | sort -u
}

case ${1:-} in
  --all) files=$(git ls-files "${rooms[@]}") ;;
  '') files=$(comm -12 <(changed) <(git ls-files "${rooms[@]}" | sort)) ;;
  *) files=$(printf '%s\n' "$@") ;;
esac
files=$(grep -vE '_test\.cc$|/testing/|_fuzz(_main|er)?\.cc$' <<<"$files" || true)
[[ -n $files ]] || {
  echo "clang-tidy: nothing differs"
  exit
}
# Clang's commands, without gcc's own options.
third_party/compile_commands.py --config=clang
# A file that no target compiles has no command, nor have those that need DPDK where
# it is not installed.
compiled=$(sed -n 's/^  "file": "\(.*\)",\?$/\1/p' compile_commands.json)
without=$(grep -vxF "$compiled" <<<"$files" || true)
[[ -z $without ]] || {
  echo "clang-tidy: not compiled here: ${without//$'\n'/ }"
  files=$(grep -vxFf <(echo "$without") <<<"$files") || exit 0
}
# run-clang-tidy takes expressions.
# shellcheck disable=SC2046
run-clang-tidy-14 -quiet -p . $(sed 's/.*/\/&$/' <<<"$files")
echo "clang-tidy: $(wc -l <<<"$files") files"
