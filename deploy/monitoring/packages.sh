#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Installs the Debian packages that the tests here miss, as root.
#
#   deploy/monitoring/packages.sh python3|yaml|grpc|openssl...
#
# Exit code 77 and the reason, as for a skipped test, where it cannot.
set -euo pipefail
shopt -s inherit_errexit

module() { /usr/bin/python3 -c "import $1" 2> /dev/null; }

missing=()
for wanted in "$@"; do
  case $wanted in
    python3) [[ -x /usr/bin/python3 ]] || missing+=(python3) ;;
    yaml) module yaml || missing+=(python3-yaml) ;;
    grpc) module grpc || missing+=(python3-grpcio) ;;
    openssl) command -v openssl > /dev/null || missing+=(openssl) ;;
    *)
      echo "packages.sh: what is $wanted?" >&2
      exit 2
      ;;
  esac
done
((${#missing[@]})) || exit 0
if [[ "$(id -u)" != 0 ]] || ! command -v apt-get > /dev/null; then
  echo "SKIP: not installed, for want of root or apt: ${missing[*]}"
  exit 77
fi
echo "installing ${missing[*]}" >&2
{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
  --no-install-recommends "${missing[@]}"; } > /dev/null || {
  echo "SKIP: cannot install ${missing[*]}"
  exit 77
}
