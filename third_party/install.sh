#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Installs the Debian packages that the build, the tests and the demo need;
# does nothing where they are there already. Debian 12, as root.
set -euo pipefail

packages=(
  # Compiler and build.
  bazel-bootstrap clang-format g++ lld python3
  # Libraries.
  libabsl-dev libbenchmark-dev libbz2-dev libevent-dev libgmock-dev
  libgrpc++-dev libgtest-dev liblzma-dev libprotobuf-dev libsimdjson-dev libspdlog-dev
  libsqlite3-dev libssl-dev libxxhash-dev libyaml-cpp-dev libzstd-dev prometheus-cpp-dev
  protobuf-compiler protobuf-compiler-grpc zlib1g-dev
  # What the demo and the tests call; clang is for the fuzzers.
  bgpdump bird2 clang-14 clang-tidy-14 curl etcd-client etcd-server frr iproute2
  libclang-rt-14-dev openssl procps qemu-user
  # What the tests complete commands in.
  fish zsh
  # What the Python package and the example need, and what builds the package.
  python3-grpcio python3-numpy python3-pip python3-protobuf python3-setuptools
  python3-wheel
)

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $state == installed ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
