#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Builds programs of Kubernetes from the Go module proxy, and prints the folder.
#
#   deploy/kubernetes/build.sh [PROGRAM...]      (default: kube-apiserver)
#
# PROGRAM is one of kube-apiserver, kube-controller-manager, kube-scheduler,
# kubelet. kube-apiserver alone takes about 400 CPU seconds on first use, all
# four about 500, and 4 GB of room for the time being. What is built is kept
# under .cache. With PLANB_KUBERNETES=cached, exits with 77 rather than build.
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "$0")" && pwd)
readonly VERSION=1.33.13
# Of the one module; its own go.sum holds all others to theirs, but for the
# parts of Kubernetes itself, which Go's checksum database vouches for.
readonly SUM='h1:bmH31xUdSzeA5vk0wZAK9MZp11mdLuzUSeKk0qN3hPQ='

cache=$(cd "$here/../.." && pwd)/.cache/kubernetes
bin=$cache/v$VERSION
mkdir -p "$bin"
exec 9> "$cache/lock"
flock 9 # Two tests may ask at once.

(($#)) || set -- kube-apiserver
missing=()
for program in "$@"; do
  [[ -x "$bin/$program" ]] || missing+=("$program")
done
if ((${#missing[@]} == 0)); then
  echo "$bin"
  exit
fi
if [[ "${PLANB_KUBERNETES:-}" == cached ]]; then
  echo "not built: ${missing[*]}" >&2
  exit 77
fi

started=$SECONDS
go=$("$here/../go_tool.sh" go)
work=$cache/work
rm -rf "$work" # Of a run that was killed.
mkdir -p "$work/module" "$work/bin"
trap 'rm -rf "$work"' EXIT
# A cache of one's own can be thrown away: only the programs stay.
export GOMODCACHE=$work/mod GOCACHE=$work/build GOTOOLCHAIN=local
export GOFLAGS='-mod=mod -modcacherw' GO111MODULE=on CGO_ENABLED=0
unset GOBIN GOROOT GOOS GOARCH

cd "$work/module"
echo 'module planb.local/kubernetes' > go.mod
answer=$("$go" mod download -json "k8s.io/kubernetes@v$VERSION" 9>&-) || {
  echo "build.sh: cannot fetch: $answer" >&2
  exit 1
}
grep -qF "\"Sum\": \"$SUM\"" <<< "$answer" || {
  echo "build.sh: unexpected checksum: $answer" >&2
  exit 1
}
upstream=$GOMODCACHE/k8s.io/kubernetes@v$VERSION
# Inside Kubernetes' repository its parts are folders; outside, modules of
# their own with the version 0.x of the same release.
"$go" mod edit -json "$upstream/go.mod" | python3 -c '
import json, sys
version = sys.argv[1]
module = json.load(sys.stdin)
print("module planb.local/kubernetes")
print("go", module["Go"])
print(f"require k8s.io/kubernetes v{version}")
for replace in module["Replace"]:
    if replace["New"]["Path"].startswith("./staging/"):
        path = replace["Old"]["Path"]
        print(f"replace {path} => {path} v0.{version.partition(chr(46))[2]}")
' "$VERSION" > go.mod
cp "$upstream/go.sum" go.sum

# Or the programs would call themselves v0.0.0, and refuse one another.
stamp=
for pair in gitVersion="v$VERSION" gitMajor="${VERSION%%.*}" \
  gitMinor="$(cut -d. -f2 <<< "$VERSION")" gitTreeState=clean \
  gitCommit=unknown buildDate=1970-01-01T00:00:00Z; do
  stamp+=" -X k8s.io/component-base/version.$pair"
done
echo "build.sh: building ${missing[*]}" >&2
"$go" build -trimpath -ldflags "-s -w$stamp" -o "$work/bin/" \
  "${missing[@]/#/k8s.io/kubernetes/cmd/}" >&2 9>&-
mv "$work/bin"/* "$bin/"
echo "build.sh: took $((SECONDS - started)) s" >&2
echo "$bin"
