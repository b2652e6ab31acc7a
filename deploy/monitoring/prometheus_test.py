#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Real servers, a real Prometheus, real faults: the alerts fire and resolve.

    prometheus_test.py BIN PROMETHEUS_BIN

BIN holds planb_server, planbctl and planb-feed, PROMETHEUS_BIN prometheus. The rules run 60
times faster (processes.py). All faults are injected at once, each into a server of
its own; beside them is one that is well, with lookups and updates. Then each
query of the dashboard is asked, the faults are undone, and every alert has to
resolve.
"""

import math
import pathlib
import signal
import sys
import tempfile
import time

import dashboard
import faults
from processes import Prometheus, Server, wait_until

# An overloaded machine lets a server that is well be slow, and a second of it
# counts as a minute here.
_TOLERATED = {"PlanBLookupP99High", "PlanBServerDown"}
_PATIENCE = 120


def say(text: str):
    print(f"{time.monotonic() - _START:5.1f} s  {text}", flush=True)


def await_alerts(prometheus, trouble, expected: set, seen: set, fire: bool):
    """Until all `expected` have been seen firing, or none fires any more."""
    left = set(expected)

    def progress() -> bool:
        for fault in trouble:
            fault.check()
        firing = prometheus.firing()
        seen.update(firing)
        for alert in sorted(left & firing if fire else left - firing):
            say(f"{'fires' if fire else 'resolved'}: {' of '.join(alert)}")
            left.discard(alert)
        return not left

    try:
        wait_until(progress, "alerts", _PATIENCE)
    except TimeoutError as error:
        verb = "fire" if fire else "resolve"
        raise TimeoutError(f"do not {verb}: {sorted(left)}") from error


def check_dashboard(prometheus) -> int:
    """Asks each query until it has an answer, a number at least; returns how
    many there are. Throws TimeoutError with the panel's title."""
    count = 0
    for panel in dashboard.panels_shown():
        for target in panel["targets"]:
            expression = dashboard.expand(target["expr"])
            wait_until(
                lambda: any(
                    math.isfinite(value)
                    for _, value in prometheus.query(expression)
                ),
                f"an answer for panel '{panel['title']}': {expression}",
                seconds=20,
            )
            count += 1
    return count


def run(programs, prometheus_programs, work, trouble):
    for each in trouble:
        each.prepare()
    say(f"{len(trouble)} servers")
    prometheus = Prometheus(prometheus_programs, work)
    try:
        play(prometheus, trouble)
    except Exception:
        print(prometheus.tail(), file=sys.stderr)
        raise
    finally:
        prometheus.close()


def play(prometheus, trouble):
    names = {each.name for each in trouble}
    seen = set()
    feeds = {e.name: e.feed.metrics for e in trouble if e.feed}
    prometheus.set_targets({e.name: e.server.metrics for e in trouble}, feeds)

    def scraped() -> bool:
        up = prometheus.query("up == 1")
        return len(up) == len(names) + len(feeds)

    wait_until(scraped, "all are scraped")
    # Long enough for a while ago to be known.
    wait_until(
        lambda: len(prometheus.query("planb_generation offset 3s")) > 0,
        "a past",
    )
    say("scraped; now the faults")
    for each in trouble:
        each.begin()
    expected = {(a, each.name) for each in trouble for a in each.alerts}
    await_alerts(prometheus, trouble, expected, seen, fire=True)

    say(f"{check_dashboard(prometheus)} queries of the dashboard have answers")

    for each in trouble:
        each.stop_ticks()
    for each in trouble:
        each.await_end_of_ticks()
        each.undo()
    say("undone")
    await_alerts(prometheus, trouble, expected, seen, fire=False)

    false_alarms = {
        alert
        for alert, instance in seen
        if instance == "well" and alert not in _TOLERATED
    }
    if false_alarms:
        raise AssertionError(f"though all was well: {sorted(false_alarms)}")

    prometheus.set_targets({})
    absent = {("PlanBAbsent", "")}
    await_alerts(prometheus, trouble, absent, seen, fire=True)


def main() -> int:
    # What is started is ended, also when the test is told to stop.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to stop"))
    programs, prometheus_programs = map(pathlib.Path, sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        trouble = [
            fault(Server(programs, work, fault.name)) for fault in faults.ALL
        ]
        try:
            run(programs, prometheus_programs, work, trouble)
        except Exception as error:
            for each in trouble:
                if each.name in str(error) and each.server.log.exists():
                    print(each.server.tail(), file=sys.stderr)
            print(f"FAIL: {error}", file=sys.stderr)
            return 1
        finally:
            for each in trouble:
                each.close()
    say("done")
    return 0


_START = time.monotonic()
if __name__ == "__main__":
    sys.exit(main())
