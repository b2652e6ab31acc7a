#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Holds the contract to what was promised (docs/COMPATIBILITY.md): names, numbers, types,
# labels and streaming of planb.v1 only come. Fails if the protos lack, or have otherwise,
# what those of the first commit with a VERSION had, or of any commit since. Skipped in a
# shallow clone, which lacks these commits.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ $(git rev-parse --is-shallow-repository) == true ]]; then
  echo 'SKIP: a shallow clone has no earlier contract'
  exit 77
fi
buf=$(deploy/go_tool.sh buf)
first=$(git log --format=%H -- VERSION | tail -n 1)
since=$(git log --format=%H "$first..HEAD" -- proto/planb/v1)
for commit in $first $since; do
  git archive "$commit" proto/planb/v1 |
    "$buf" breaking proto --against '-#format=tar,subdir=proto' || {
    echo "breaks the contract of $(git log -1 --format='%h, %s' "$commit")"
    exit 1
  }
done
