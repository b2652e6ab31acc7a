#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Draws `planbctl top` and the dashboard's row of feeds while a real feed runs.

    deploy/monitoring/feed_picture.py BIN TABLE > docs/guides/feed.svg

BIN is a folder with planb_server, planbctl and planb-feed; TABLE a file of "PREFIX NUMBER"
lines, all of IPv6. A server, a feed and Prometheus run. This program stands for zebra: it
tells the feed the table, then changes of it; is gone for some seconds; and tells all again
and changes more. The panels are those of dashboard_panels.py, by the same queries, drawn
without Grafana. Progress goes to stderr; a panel without a sample is an error.
"""

import html
import math
import pathlib
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import dashboard
from dashboard_panels import FEED
from processes import Feed, HERE, Prometheus, Server, free_port, wait_until

CHANGES, TICK = 2000, 0.05  # a second; seconds
LOOKUPS = 40000  # a second
COLOURS = ("#2980b9", "#c0392b", "#27ae60", "#8e44ad", "#f39c12", "#16a085")
WIDTH, HEIGHT, GAP, TOP = 300, 150, 16, 196


def frame(prefix: str, hop: int) -> bytes:
    """A frame of FPM with a route of BGP, as zebra's (RTM_NEWROUTE)."""
    address, bits = prefix.split("/")
    gateway = socket.inet_pton(socket.AF_INET6, f"fe80::{hop:x}")
    attributes = b"".join(struct.pack("=HH", 4 + len(data), kind) + data for kind, data in (
        (1, socket.inet_pton(socket.AF_INET6, address)), (6, struct.pack("=I", 20)),
        (4, struct.pack("=I", 1)), (5, gateway)))
    message = struct.pack("=BBBBBBBBI", socket.AF_INET6, int(bits), 0, 0, 254, 186, 0, 1, 0) + attributes
    message = struct.pack("=IHHII", 16 + len(message), 24, 0, 0, 0) + message
    return struct.pack(">BBH", 1, 1, 4 + len(message)) + message


class Zebra:
    """A connection to a feed."""

    def __init__(self, port: int, routes: list):
        self._routes = routes
        self._random = random.Random(1)
        self._connection = socket.create_connection(("127.0.0.1", port))
        self._connection.sendall(b"".join(frame(*route) for route in routes))

    def change(self, seconds: float):
        """Changes random routes for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._connection.sendall(b"".join(
                frame(self._random.choice(self._routes)[0], self._random.randrange(1, 64))
                for _ in range(int(CHANGES * TICK))))
            time.sleep(TICK)

    def close(self):
        self._connection.close()


def look_up(server: Server, routes: list, ended: threading.Event):
    """Asks for addresses of the table until the end."""
    command = [server.programs / "planbctl", f"--server={server.target}", "--table=fed", "lookup", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as asking:
        while not ended.is_set():
            prefixes = random.choices(routes, k=int(LOOKUPS * TICK))
            asking.stdin.write("".join(prefix.split("/")[0] + "\n" for prefix, _ in prefixes))
            asking.stdin.flush()
            time.sleep(TICK)
        asking.stdin.close()


def sampled(prometheus: Prometheus, expression: str, start: float, end: float) -> list:
    """The series of a query, as (labels, [(seconds, value)])."""
    for name, value in (("$__rate_interval", "4s"), ("$job", ".*"), ("$instance", ".*")):
        expression = dashboard.expression_of(expression).replace(name, value)
    return [(labels, [(at - start, value) for at, value in samples if math.isfinite(value)])
            for labels, samples in prometheus.samples(expression, start, end)]


def short(value: float, unit: str) -> str:
    if unit == "s" and value < 1:
        return f"{value * 1e3:.0f} ms"
    for bound, letter in ((1e6, " M"), (1e3, " k")):
        if value >= bound:
            return f"{value / bound:.3g}{letter}"
    return f"{value:.3g}" + (" s" if unit == "s" else "")


def drawn(panel, lines: list, seconds: float, x: int, y: int) -> list:
    """A panel of (name, samples), with its corner at x, y."""
    most = max((value for _, samples in lines for _, value in samples), default=0) or 1
    least = min((value for _, samples in lines for _, value in samples if value > 0), default=most)
    height = HEIGHT - 24

    def at(value: float) -> float:
        if panel.log:
            low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
            value = (math.log10(max(value, least)) - low) / max(high - low, 1)
        else:
            value /= most * 1.05
        return y + height - value * (height - 22)

    out = [f'<text x="{x}" y="{y + 10}" font-weight="bold">{html.escape(panel.title)}</text>']
    for tick in (least, most) if panel.log else (0, most / 2, most):
        out.append(f'<path d="M{x + 40} {at(tick):.1f}h{WIDTH - 40}" stroke="#dddddd"/>'
                   f'<text x="{x + 36}" y="{at(tick) + 4:.1f}" text-anchor="end">{short(tick, panel.unit)}</text>')
    left = x + 40
    for i, (name, samples) in enumerate(lines):
        points = [(left + when / seconds * (WIDTH - 40), at(value)) for when, value in samples]
        # What lies on a straight line is left out.
        kept = [p for j, p in enumerate(points)
                if j in (0, len(points) - 1) or not points[j - 1][1] == p[1] == points[j + 1][1]]
        out.append(f'<polyline fill="none" stroke-width="1.5" stroke="{COLOURS[i]}" points="'
                   + " ".join(f"{a:.0f},{b:.1f}" for a, b in kept) + '"/>')
        out.append(f'<text x="{left + (WIDTH - 40) * i // len(lines)}" y="{y + height + 14}" '
                   f'fill="{COLOURS[i]}">{html.escape(name)}</text>')
    return out


def main():
    programs, table = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    with open(table, encoding="ascii") as file:
        routes = [(prefix, 1 + int(hop) % 64) for prefix, hop in map(str.split, file)]
    found = subprocess.run([HERE / "prometheus.sh"], check=True, capture_output=True, text=True).stdout.strip()
    ended = threading.Event()
    with tempfile.TemporaryDirectory(prefix="planb_picture.") as name:
        work = pathlib.Path(name)
        server = Server(programs, work, "server").start()
        port = free_port()
        feed = Feed(server, {"name": "frr", "kind": "fpm", "options": {"listen": f"127.0.0.1:{port}", "quiet": "2s"}})
        prometheus = Prometheus(pathlib.Path(found), work)
        asking = threading.Thread(target=look_up, args=(server, routes, ended))
        try:
            prometheus.set_targets({"server": server.metrics}, {"feed": feed.metrics})
            feed.start()
            wait_until(lambda: prometheus.query("planb_feed_connected == 1"), "the feed is scraped")
            start = time.time()
            asking.start()
            print("telling", len(routes), "routes", file=sys.stderr)
            zebra = Zebra(port, routes)
            wait_until(lambda: prometheus.query("planb_feed_ready == 1"), "the feed is ready")
            zebra.change(15)
            zebra.close()
            time.sleep(5)
            zebra = Zebra(port, routes)
            zebra.change(10)
            changing = threading.Thread(target=zebra.change, args=(8,))
            changing.start()
            top = subprocess.run([programs / "planbctl", "top", f"--metrics={server.metrics}",
                                  "--interval=5s", "--rounds=1"],
                                 check=True, capture_output=True, text=True).stdout
            changing.join()
            end = time.time()
            panels = [(panel, [(sampled(prometheus, query, start, end), legend) for query, legend in panel.queries])
                      for panel in FEED]
        finally:
            ended.set()
            for each in (feed.kill, server.kill, prometheus.close):
                each()
    draw(top.replace(server.metrics, "127.0.0.1:9464"), panels, end - start)


def draw(top: str, panels: list, seconds: float):
    out = [f'<rect x="8" y="8" width="{3 * (WIDTH + GAP) - GAP}" height="{TOP - 24}" rx="4" fill="#1e1e1e"/>']
    for i, line in enumerate(top.rstrip().splitlines()):
        out.append(f'<text x="18" y="{28 + 16 * i}" xml:space="preserve" font-family="monospace" '
                   f'font-size="13" fill="#dddddd">{html.escape(line)}</text>')
    for i, (panel, answers) in enumerate(panels):
        lines = []
        for series, legend in answers:
            for labels, samples in series:
                text = legend.replace("{{instance}} ", "")
                for label, value in labels.items():
                    text = text.replace("{{" + label + "}}", value)
                if any(value for _, value in samples):
                    lines.append((text.replace("{{instance}}", "feed"), samples))
        if not any(series for series, _ in answers):
            raise RuntimeError(f"no sample of {panel.title}")
        out += drawn(panel, lines[:len(COLOURS)], seconds, 8 + i % 3 * (WIDTH + GAP), TOP + i // 3 * (HEIGHT + GAP))
    width, height = 3 * (WIDTH + GAP), TOP + 2 * (HEIGHT + GAP)
    out.append(f'<text x="8" y="{height - 6}">{seconds:.0f} seconds: the table is told; {CHANGES:,} changes a second; '
               'no zebra for 5 seconds; all is told again, and changes again</text>')
    print(f'<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11" width="{width}" '
          f'height="{height}" viewBox="0 0 {width} {height}">',
          '<rect width="100%" height="100%" fill="#ffffff"/>', *out, "</svg>", sep="\n")


if __name__ == "__main__":
    main()
