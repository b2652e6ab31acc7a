#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# What cross-compiling for arm64 needs: g++-aarch64-linux-gnu, which it installs
# as root if it is missing, and Debian's packages for arm64, which it unpacks below
# ~/.cache. dpkg of this machine learns of no other architecture.
#
#   third_party/arm64.sh folder    # prints the folder, a root file system
#   third_party/arm64.sh options   # prints Bazel's options, one a line
#
# In the folder, `packages` has the name, version, architecture and source of each
# package.
set -euo pipefail
shopt -s inherit_errexit

packages=(
  # What the programs load.
  libc6 libgcc-s1 libprometheus-cpp-core1.0 libsimdjson14 libstdc++6 zlib1g
  # What they and the engine's tests are linked from.
  libabsl-dev libbz2-dev libc-ares-dev libevent-dev libfmt-dev libgmock-dev
  libgrpc-dev libgrpc++-dev libgtest-dev liblzma-dev libprotobuf-dev libre2-dev
  libsimdjson-dev libspdlog-dev libsqlite3-dev libssl-dev libxxhash-dev
  libyaml-cpp-dev libzstd-dev prometheus-cpp-dev zlib1g-dev
)
# Another list of packages has another folder.
digest=$(sha256sum <<<"${packages[*]}")
folder=${XDG_CACHE_HOME:-$HOME/.cache}/planb/arm64-${digest:0:12}
readonly folder

if [[ ${1:-} != folder && ${1:-} != options ]]; then
  echo "usage: arm64.sh folder|options" >&2
  exit 2
fi
if ! command -v aarch64-linux-gnu-g++ >/dev/null; then
  {
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      g++-aarch64-linux-gnu
  } >/dev/null
fi
if [[ ! -e $folder ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$work"/apt/{lists,archives}/partial "$work/root"
  apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64
    -o APT::Sandbox::User=root -o Dir::State::status=/dev/null
    -o Dir::State::lists="$work/apt/lists" -o Dir::Cache="$work/apt")
  "${apt[@]}" update >&2
  (cd "$work" && "${apt[@]}" download "${packages[@]}" >&2)
  for package in "$work"/*_arm64.deb; do
    dpkg -x "$package" "$work/root"
    dpkg-deb --showformat='${Package}\t${Version}\t${Architecture}\t${source:Package}\n' \
      --show "$package" >>"$work/root/packages"
  done
  mkdir -p "$(dirname "$folder")"
  mv "$work/root" "$folder"
fi

if [[ $1 == folder ]]; then
  echo "$folder"
  exit
fi
headers=$folder/usr/include/aarch64-linux-gnu
# Bazel lets compilers see the headers of the compiler's own folders.
cat <<OPTIONS
--repo_env=CC=aarch64-linux-gnu-gcc
--repo_env=CPLUS_INCLUDE_PATH=$headers
--action_env=CPLUS_INCLUDE_PATH=$headers
--platform_suffix=-arm64
--define=link=static
--linkopt=-L$folder/usr/lib/aarch64-linux-gnu
--linkopt=-Wl,-rpath-link,$folder/usr/lib/aarch64-linux-gnu
OPTIONS
