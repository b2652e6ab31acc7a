#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Holds the contract to what was promised (docs/COMPATIBILITY.md): names, numbers, types,
# labels and streaming of planb.v1 only come. Fails if the protos lack, or have otherwise,
# what those of the last release had, or of any commit since; a release is the commit
# that raises VERSION.
set -euo pipefail
cd "$(dirname "$0")/.."
buf=$(deploy/go_tool.sh buf)
release=$(git log -1 --format=%H -- VERSION)
since=$(git log --format=%H "$release..HEAD" -- proto/planb/v1)
for commit in $release $since; do
  git archive "$commit" proto/planb/v1 |
    "$buf" breaking proto --against '-#format=tar,subdir=proto' || {
    echo "breaks the contract of $(git log -1 --format='%h, %s' "$commit")"
    exit 1
  }
done
