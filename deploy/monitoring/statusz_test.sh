#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Looks at /statusz with a real browser.
#
#   deploy/monitoring/statusz_test.sh FOLDER [SCREENSHOT.png]
#
# FOLDER holds planb_server and planbctl. Headless Chromium loads the page of a
# real server: it must show what the server answers, a hostile value must stay
# text, the charts must draw the lookups of a client, only the page and
# /statusz.json may be fetched, and the console must stay empty. As root on Debian
# it installs Chromium where that is missing. Exit code 77, with the reason, where
# no browser runs.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"

arguments $# 1 2
bin=$(realpath "$1")
screenshot=${2:-}
work=$(mktemp -d)
trap cleanup EXIT
"$here/../packages.sh" chromium:chromium+fonts-dejavu-core python3

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

# The page shows it among the flags. The server refuses hostile table names.
hostile='<img src=x onerror=document.body.remove()>&"'
mkdir "$work/$hostile"
socket=unix://$work/$hostile/s
start_server server "$bin/planb_server" --listen="$socket" \
  --metrics_address='127.0.0.1:0' --store="$work/planb.db" --generate=20000 \
  --generate_ipv4=5000
port=$(metrics_port server)
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

# The page asks each second. Chromium's clock skips the waiting, so that the page
# asks some ten times while lookups come.
page=(--virtual-time-budget=10000)
"$bin/planbctl" --server="$socket" bench --seconds=300 > "$work/bench" 2>&1 &
server_pid[bench]=$!
until grep -qs ' M lookups/s' "$work/bench"; do
  kill -0 "${server_pid[bench]}" || fail "no lookups: $(tail -n 1 "$work/bench")"
  sleep 0.1
done
browse "${page[@]}" --log-net-log="$work/net.json" --dump-dom "$url/statusz" \
  > "$work/dom.html" || fail "no page: $(tail -n 3 "$work/browser")"
stop_server bench
! grep CONSOLE "$work/browser" || fail "the console has something to say"

# Tables and generations as planbctl shows them. The hostile value is text, and
# makes no element.
planbctl table list --json > "$work/tables.json"
HOSTILE=$hostile python3 - "$work/dom.html" "$work/tables.json" << 'END'
import html.parser, json, os, sys

class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.elements, self.text, self.rows = set(), [], []
        self.ids, self.path = {}, {}
        self.id = self.tag = None
    def handle_starttag(self, tag, attributes):
        self.elements.add(tag)
        for name, _ in attributes:
            assert not name.startswith('on'), f'a handler: {name}'
        self.id, self.tag = dict(attributes).get('id'), tag
        if tag == 'path':
            self.path[self.id] = dict(attributes).get('d', '')
        if tag == 'tr':
            self.rows.append([])
        if tag in ('td', 'th'):
            self.rows[-1].append('')
    def handle_data(self, data):
        if self.tag in ('script', 'style'):
            return
        self.text.append(data)
        if self.id:
            self.ids.setdefault(self.id, data)
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data

page = Page()
page.feed(open(sys.argv[1], encoding='utf-8').read())
text = ' '.join(page.text)
assert not page.elements & {'img', 'i', 'iframe'}, page.elements
assert os.environ['HOSTILE'] in text, 'the hostile flag is not shown'
for heading in ('Tables', 'Recent rebuilds', 'Top error reasons', 'Streams',
                'Store', 'Process', 'Flags', 'TABLE_NOT_FOUND', 'Ready.'):
    assert heading in text, f'{heading} is not shown'

header = next(r for r in page.rows if r[:1] == ['field'])
fields = {r[0].strip(): dict(zip(header, r)) for r in page.rows
          if len(r) == len(header)}
number = lambda cell: int(cell.strip().replace(',', ''))
# Charts: a line of at least two points, and a rate that is not 0.
assert page.path['rate-line'].count('L') >= 1, page.path
assert page.path['p99-line'].startswith('M'), page.path
assert page.ids['rate'].endswith('/s'), page.ids
assert page.ids['rate-top'] != '0/s', page.ids
tables = [json.loads(line) for line in open(sys.argv[2])]
assert len(tables) == 2 and set(header) == {'field', 'blue', 'default'}, header
for table in tables:
    for field in ('routes_v4', 'routes_v6', 'accepted_generation',
                  'visible_generation', 'persisted_generation'):
        cell = fields[field.replace('_', ' ')][table['table']]
        assert number(cell) == table[field], (field, cell, table)
visible = fields['visible generation']
assert number(visible['blue']) == 3, visible
print('page:', visible)
END

# Nothing was asked for but the page and its numbers.
asked=$(python3 - "$work/net.json" "$url" << 'END'
import json, sys

log = json.load(open(sys.argv[1]))
start = log['constants']['logEventTypes']['URL_REQUEST_START_JOB']
urls = {event['params']['url'] for event in log['events']
        if event['type'] == start and 'url' in event.get('params', {})}
print(*sorted(url for url in urls if url.startswith(sys.argv[2])))
END
)
[[ $asked == "$url/statusz $url/statusz.json" ]] || fail "it asked for $asked"
# The console is not empty for a page with a mistake.
for wrong in '<script>console.error(1)</script>' "<img src=$url/nothing>"; do
  browse --dump-dom "data:text/html,$wrong" > /dev/null || true
  grep -q CONSOLE "$work/browser" || fail "the console says nothing of $wrong"
done

for width in 1280 400; do
  browse "${page[@]}" --window-size="$width,1400" --screenshot="$work/$width.png" \
    "$url/statusz" > /dev/null || fail "no picture"
  (($(stat --format=%s "$work/$width.png") > 10000)) ||
    fail "the picture of $width pixels is empty"
done
[[ -z $screenshot ]] || cp "$work/1280.png" "$screenshot"

stop_server server
echo "PASS: /statusz in $(chromium --version 2> /dev/null | head -n 1)"
