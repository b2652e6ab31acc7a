# SPDX-License-Identifier: Apache-2.0

# Builds and runs a fuzz target with clang's libFuzzer, ASan and UBSan. Sourced
# by the fuzz.sh beside a target, with that script's arguments
#   [SECONDS [CORPUS_DIR]]
# after it has defined
#   root       the repository
#   seeds      the corpus in the tree, packed by fuzz_corpus.sh
#   max_len    bytes of the longest input
#   libraries  what to link, as -lNAME
#   sources()  prints the names of the .cc files; may write some to $objects,
#              which is searched for headers
#
# Starts from the seeds and keeps what it finds in CORPUS_DIR (default: a new
# directory under /tmp). Leaves the program at CORPUS_DIR.bin and the unpacked
# seeds in CORPUS_DIR.seeds. A finding leaves its input in the current directory
# and exits non-zero; once the bug is fixed, add that input to the corpus:
#   third_party/fuzz_corpus.sh pack INPUT >> SEEDS
# To add the inputs that reached new code in a long run:
#   FOLDER/fuzz.sh 3600 /tmp/found
#   /tmp/found.bin -merge=1 -use_counters=0 /tmp/found.seeds /tmp/found
#   third_party/fuzz_corpus.sh pack /tmp/found.seeds/* > SEEDS
# Needs Debian's clang-14 and libclang-rt-14-dev.
seconds=${1:-60}
corpus=${2:-$(mktemp -d /tmp/planb_fuzz.XXXXXX)}
clang=${CLANG:-clang++-14}

if ! command -v "$clang" > /dev/null; then
  echo "fuzz.sh: $clang is missing: apt-get install clang-14" \
      "libclang-rt-14-dev" >&2
  exit 1
fi
binary=$corpus.bin
export root clang objects="$corpus.objects"
mkdir -p "$corpus" "$objects"
"$root/third_party/fuzz_corpus.sh" unpack "$seeds" "$corpus.seeds"

sources | xargs -P "$(nproc)" -n 1 sh -euc '
  object=$objects/$(basename "$1" .cc).o
  # The vector kernels ask for their instruction sets in a way that is for
  # gcc alone; they are used as they ship, all else is instrumented.
  if grep -q "pragma GCC target" "$1"; then
    exec g++ -std=c++20 -O3 -g1 -I "$root" -c "$1" -o "$object"
  fi
  exec "$clang" -std=c++20 -O1 -g1 -fno-omit-frame-pointer \
      -fsanitize=fuzzer-no-link,address,undefined \
      -fno-sanitize-recover=undefined -I "$root" -isystem "$objects" \
      -c "$1" -o "$object"
' compile
# Word by word: the libraries are a list.
# shellcheck disable=SC2086
"$clang" -fsanitize=fuzzer,address,undefined "$objects"/*.o -o "$binary" \
    $libraries
exec "$binary" -max_total_time="$seconds" -max_len="$max_len" -timeout=30 \
    -rss_limit_mb=4096 -print_final_stats=1 "$corpus" "$corpus.seeds"
