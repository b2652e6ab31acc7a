#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Looks at /statusz with a real browser.
#
#   deploy/monitoring/statusz_test.sh FOLDER [SCREENSHOT.png]
#
# FOLDER holds planb_server and planbctl. Headless Chromium loads the page of a
# real server: what it shows must be what the server says, a hostile value must
# stay text, nothing else may be fetched, and the console must stay empty. As
# root on Debian it installs Chromium where that is missing. Exit code 77, with
# the reason, where no browser runs.
set -euo pipefail
shopt -s inherit_errexit

(($# == 1 || $# == 2)) || {
  sed -n '2,${/^[^#]/q;/SPDX/d;s/^# \{0,1\}//p}' "$0" >&2
  exit 2
}
bin=$(realpath "$1")
screenshot=${2:-}
work=$(mktemp -d)
server=
finish() {
  if [[ -n $server ]]; then
    kill -KILL "$server" 2> /dev/null || true
    wait "$server" 2> /dev/null || true
  fi
  rm -rf "$work"
}
trap finish EXIT

fail() {
  echo "FAIL: $*" >&2
  [[ ! -s $work/log ]] || sed 's/^/server: /' "$work/log" >&2
  exit 1
}
skip() {
  echo "SKIP: $*"
  exit 77
}

"$(dirname "$0")/../packages.sh" chromium:chromium+fonts-dejavu-core python3

# browse ARGUMENTS...: its stdout, its log in $work/browser. A profile of its
# own each time; no sandbox, which root has not.
browse() {
  local profile
  profile=$(mktemp -d "$work/profile.XXXX")
  HOME=$profile timeout 240 chromium --headless --no-sandbox --disable-gpu \
    --disable-dev-shm-usage --disable-background-networking --no-first-run \
    --user-data-dir="$profile" --enable-logging=stderr "$@" 2> "$work/browser"
}
browse --dump-dom 'data:text/html,<p>it runs' > "$work/probe" || true
grep -q 'it runs' "$work/probe" ||
  skip "Chromium does not run here: $(tail -n 1 "$work/browser")"

# Shown among the flags. Table names cannot be hostile: the server takes none.
hostile='<img src=x onerror=document.body.remove()>&"'
mkdir "$work/$hostile"
socket=unix://$work/$hostile/s
"$bin/planb_server" --listen="$socket" --metrics_address='127.0.0.1:0' \
  --store="$work/planb.db" --generate=20000 --generate_ipv4=5000 \
  2> "$work/log" &
server=$!
deadline=$((SECONDS + 120))
until grep -qs ' serving$' "$work/log"; do
  kill -0 "$server" 2> /dev/null || fail "the server has ended"
  ((SECONDS < deadline)) || fail "the server does not serve"
  sleep 0.1
done
port=$(sed -n 's/.* serving metrics .*port=//p' "$work/log")
url=http://127.0.0.1:$port

planbctl() { "$bin/planbctl" --server="$socket" "$@"; }
planbctl table create blue > /dev/null
for i in 1 2 3; do
  planbctl announce --table=blue "10.$i.0.0/16" "$i" > /dev/null
done
planbctl announce 2001:db8::/32 7 > /dev/null
code=0
planbctl table create '<b>bold</b>' > "$work/out" 2>&1 || code=$?
((code != 0)) || fail "a table has a hostile name"
code=0
planbctl lookup --table=nowhere 192.0.2.1 > "$work/out" 2>&1 || code=$?
((code != 0)) || fail "a table that is not there answers"

browse --log-net-log="$work/net.json" --dump-dom "$url/statusz" \
  > "$work/dom.html" || fail "no page: $(tail -n 3 "$work/browser")"
! grep CONSOLE "$work/browser" || fail "the console has something to say"

# Table and generations as the server's own client says them; the hostile value
# as text, and no element of its making.
planbctl table list --json > "$work/tables.json"
HOSTILE=$hostile python3 - "$work/dom.html" "$work/tables.json" << 'END'
import html.parser, json, os, sys

class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.elements, self.text, self.rows = set(), [], []
    def handle_starttag(self, tag, attributes):
        self.elements.add(tag)
        for name, _ in attributes:
            assert not name.startswith('on'), f'a handler: {name}'
        if tag == 'tr':
            self.rows.append([])
        if tag in ('td', 'th'):
            self.rows[-1].append('')
    def handle_data(self, data):
        self.text.append(data)
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data

page = Page()
page.feed(open(sys.argv[1], encoding='utf-8').read())
text = ' '.join(page.text)
assert not page.elements & {'script', 'img', 'b', 'iframe'}, page.elements
assert os.environ['HOSTILE'] in text, 'the hostile flag is not shown'
for heading in ('Tables', 'Recent rebuilds', 'Top error reasons', 'Streams',
                'Store', 'Process', 'Flags', 'TABLE_NOT_FOUND', 'Ready.'):
    assert heading in text, f'{heading} is not shown'

header = next(r for r in page.rows if r[:1] == ['table'])
shown = {r[0].strip(): dict(zip(header, r)) for r in page.rows
         if len(r) == len(header) and r != header}
number = lambda cell: int(cell.strip().replace(',', ''))
tables = [json.loads(line) for line in open(sys.argv[2])]
assert len(tables) == 2 and set(shown) == {'blue', 'default'}, (shown, tables)
for table in tables:
    row = shown[table['table']]
    for cell, field in (('IPv4 routes', 'routes_v4'),
                        ('IPv6 routes', 'routes_v6'),
                        ('accepted', 'accepted_generation'),
                        ('visible', 'visible_generation'),
                        ('persisted', 'persisted_generation')):
        assert number(row[cell]) == table[field], (cell, row, table)
assert number(shown['blue']['visible']) == 3, shown['blue']
print('page:', {name: row['visible'] for name, row in shown.items()})
END

# Nothing was asked for but the page itself.
asked=$(python3 - "$work/net.json" "$url" << 'END'
import json, sys

log = json.load(open(sys.argv[1]))
start = log['constants']['logEventTypes']['URL_REQUEST_START_JOB']
urls = {event['params']['url'] for event in log['events']
        if event['type'] == start and 'url' in event.get('params', {})}
print(*sorted(url for url in urls if url.startswith(sys.argv[2])))
END
)
[[ $asked == "$url/statusz" ]] || fail "it asked for $asked"
# That console does speak where a page has something wrong.
for wrong in '<script>console.error(1)</script>' "<img src=$url/nothing>"; do
  browse --dump-dom "data:text/html,$wrong" > /dev/null || true
  grep -q CONSOLE "$work/browser" || fail "the console says nothing of $wrong"
done

for width in 1280 400; do
  browse --window-size="$width,1400" --screenshot="$work/$width.png" \
    "$url/statusz" > /dev/null || fail "no picture"
  (($(stat --format=%s "$work/$width.png") > 10000)) ||
    fail "the picture of $width pixels is empty"
done
[[ -z $screenshot ]] || cp "$work/1280.png" "$screenshot"

kill -TERM "$server"
code=0
wait "$server" || code=$?
server=
((code == 0)) || fail "the server ended with $code"
echo "PASS: /statusz in $(chromium --version 2> /dev/null | head -n 1)"
