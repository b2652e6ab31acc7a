#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

# Packs and unpacks the corpus of a fuzz target: a text file with one input a
# line, its name and its bytes in base64. fuzz_corpus.h reads it in tests.
#
# Usage: third_party/fuzz_corpus.sh pack INPUT... > CORPUS.txt
#        third_party/fuzz_corpus.sh pack INPUT >> CORPUS.txt
#        third_party/fuzz_corpus.sh unpack CORPUS.txt FOLDER
#
# The same inputs, given in the same order, make the same file.
set -eu

case ${1:-} in
  pack)
    shift
    for input; do
      printf '%s %s\n' "$(basename "$input")" "$(base64 -w 0 "$input")"
    done
    ;;
  unpack)
    mkdir -p "$3"
    while read -r name bytes; do
      printf '%s' "$bytes" | base64 -d > "$3/$name"
    done < "$2"
    ;;
  *)
    sed -n 's/^# \{0,1\}//; 2,8p' "$0" >&2
    exit 2
    ;;
esac
