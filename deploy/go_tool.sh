#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Prints the paths of pinned Go programs, installing them on first use.
#
#   deploy/go_tool.sh go|kustomize|kubeconform|ghz|grpcurl|helm|buf|MODULE@VERSION...
#
# One path a line; of a MODULE@VERSION, the folder it was unpacked to. Tools
# asked for together share downloads and objects: half the time.
#
# Everything lands under .cache/go of the repository. The tools want Go 1.26:
# where the machine has no new enough `go`, an old one (Debian 12's 1.19, which
# root installs if there is none at all) fetches the official toolchain, itself
# a Go module, which is checked against the sum below. Progress goes to stderr.
set -euo pipefail
shopt -s inherit_errexit

readonly GO_VERSION=1.26.8
readonly GO_SUM='h1:ZOmGe1OnfREDMIdb1Qi4G9JSuDPBLGExZMQ4nis1RXM='

declare -rA PACKAGE=(
  [kustomize]=sigs.k8s.io/kustomize/kustomize/v5@v5.8.2
  [kubeconform]=github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0
  [ghz]=github.com/bojand/ghz/cmd/ghz@v0.120.0
  [helm]=helm.sh/helm/v3/cmd/helm@v3.22.0
  [buf]=github.com/bufbuild/buf/cmd/buf@v1.75.0
  [grpcurl]=github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4
)

die() {
  echo "go_tool.sh: $*" >&2
  exit 1
}

# True if version $1 is $2 or later.
at_least() {
  [[ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" == "$2" ]]
}

# The version of the `go` program $1, such as 1.26.8; empty if it is none.
go_version() {
  "$1" env GOVERSION 2>/dev/null | sed 's/^go//; s/[ -].*//'
}

# Any `go` that knows modules: the machine's, or else Debian's.
any_go() {
  local candidate
  for candidate in "$(command -v go || true)" /usr/lib/go-*/bin/go; do
    if [[ -x "$candidate" ]]; then
      echo "$candidate"
      return
    fi
  done
  if [[ "$(id -u)" != 0 ]] || ! command -v apt-get >/dev/null; then
    die "no Go here, and only root can install one"
  fi
  # Two packages; golang-go would bring a C compiler too.
  { apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
      --no-install-recommends ca-certificates golang-1.19-go
  } >&2 9>&- || die "cannot install golang-1.19-go"
  echo /usr/lib/go-1.19/bin/go
}

# Unpacks the pinned toolchain as $1 with the help of any older Go.
fetch_toolchain() {
  local target=$1 seed module answer
  seed=$(any_go)
  [[ "$(uname -m)" == x86_64 ]] || die "the pinned Go is for x86-64 only"
  module="golang.org/toolchain@v0.0.1-go$GO_VERSION.linux-amd64"
  echo "go_tool.sh: fetching Go $GO_VERSION" >&2
  mkdir -p "$scratch/seed"
  answer=$(cd "$scratch/seed" && echo 'module seed' > go.mod &&
    "$seed" mod download -json "$module" 9>&-) || die "cannot fetch: $answer"
  grep -qF "\"Sum\": \"$GO_SUM\"" <<< "$answer" ||
    die "unexpected checksum of $module: $answer"
  # Module archives hold neither execute bits nor nested go.mod files.
  local unpacked=$GOMODCACHE/$module manifest
  chmod +x "$unpacked"/bin/* "$unpacked"/pkg/tool/*/*
  while IFS= read -r manifest; do
    mv "$manifest" "${manifest%/_go.mod}/go.mod"
  done < <(find "$unpacked" -name _go.mod)
  mv "$unpacked" "$target"
}

# Path of a Go at least as new as the pinned one.
find_go() {
  local machine own=$cache/go$GO_VERSION
  machine=$(command -v go || true)
  if [[ -n "$machine" ]] &&
    at_least "$(GOTOOLCHAIN=local go_version "$machine")" "$GO_VERSION"; then
    echo "$machine"
    return
  fi
  [[ -d "$own" ]] || fetch_toolchain "$own"
  echo "$own/bin/go"
}

install_tool() {
  local tool=$1 folder=$2 go started=$SECONDS
  go=$(find_go)
  echo "go_tool.sh: installing ${PACKAGE[$tool]}" >&2
  mkdir -p "$scratch/bin" "$folder"
  CGO_ENABLED=0 GOBIN=$scratch/bin \
    "$go" install -trimpath -ldflags='-s -w' "${PACKAGE[$tool]}" >&2 9>&-
  mv "$scratch/bin/$tool" "$folder/$tool"
  echo "go_tool.sh: $tool took $((SECONDS - started)) s" >&2
}

fetch_module() {
  local module=$1 folder=$2 go
  go=$(find_go)
  mkdir -p "$scratch/fetch" "$(dirname "$folder")"
  (cd "$scratch/fetch" && echo 'module fetch' > go.mod &&
    "$go" mod download "$module") >&2 9>&-
  mv "$GOMODCACHE/$module" "$folder"
}

(($# >= 1)) || die "usage: go_tool.sh go|TOOL|MODULE@VERSION..."
cache=$(cd "$(dirname "$0")/.." && pwd)/.cache/go
mkdir -p "$cache"
exec 9> "$cache/lock"
flock 9 # Two steps of one test may ask at once. No child inherits the lock.

# Downloads and objects are only needed until the program is there.
scratch=$cache/scratch
trap 'rm -rf "$scratch"' EXIT
rm -rf "$scratch" # Of a run that was killed.
mkdir -p "$scratch"
export GOMODCACHE=$scratch/mod GOCACHE=$scratch/build GOTOOLCHAIN=local
export GOFLAGS='-mod=mod -modcacherw' GO111MODULE=on
unset GOBIN GOROOT GOOS GOARCH

for wanted in "$@"; do
  if [[ "$wanted" == go ]]; then
    find_go
  elif [[ "$wanted" == *@* ]]; then
    folder=$cache/modules/$wanted
    [[ -d "$folder" ]] || fetch_module "$wanted" "$folder"
    echo "$folder"
  elif [[ -n "${PACKAGE[$wanted]:-}" ]]; then
    folder=$cache/$wanted@${PACKAGE[$wanted]##*@}
    [[ -x "$folder/$wanted" ]] || install_tool "$wanted" "$folder"
    echo "$folder/$wanted"
  else
    die "unknown tool $wanted"
  fi
done
