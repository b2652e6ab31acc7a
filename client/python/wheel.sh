#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Builds the wheel of the Python package into a folder and prints its path.
#
#   client/python/wheel.sh FOLDER
#
# Needs what third_party/install.sh installs, and no network.
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/../.."

# In a copy: the build leaves files beside its sources, and packs old ones.
work=$(mktemp -d /tmp/planb_wheel.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir "$work/wheel"
cp -r --parents proto third_party/googleapis client/python VERSION "$work"
/usr/bin/python3 -m pip wheel --quiet --disable-pip-version-check --no-index \
  --no-deps --no-build-isolation --wheel-dir="$work/wheel" \
  "$work/client/python" >&2
wheel=$(cd "$work/wheel" && echo planb_lookup-*.whl)
mv "$work/wheel/$wheel" "$folder"
echo "$folder/$wheel"
