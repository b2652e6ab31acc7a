#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Fails, and says where, if a C++ file is not as clang-format would have it.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -z '*.h' '*.cc' '*.inc' |
  xargs -0 clang-format --dry-run --Werror
