# SPDX-License-Identifier: Apache-2.0

"""What a soak came to: memory's slope, the verdict, words and a plot."""

import os
import statistics
import sys

# glibc's smallest chunk that holds more than a few words.
SMALLEST_LOSS = 32  # bytes
# Allocator and page cache come and go by about so much without any leak.
NOISE = 0.02
# A slope over less says nothing: a table, a history and an allocator's arenas
# take minutes to reach their size.
MIN_WINDOW = 300  # seconds


def theil_sen(points):
    """The median of the slopes between all pairs: steps and spikes, which a
    least-squares fit follows, do not move it. 0 for fewer than two points."""
    if len(points) > 300:
        points = points[::len(points) // 300 + 1]
    slopes = [(y2 - y1) / (x2 - x1)
              for i, (x1, y1) in enumerate(points)
              for x2, y2 in points[i + 1:]
              if x2 > x1]
    return statistics.median(slopes) if slopes else 0.0


def memory(samples, begin, end, updates_per_second):
    """Judges (time, life, bytes) samples within [begin, end].

    The slope is too much if memory grows by more than the smallest chunk for
    every update, or by more than the noise within the window, whichever is
    larger. In a window that is too short it is only reported.
    """
    points = [(at, rss) for at, _, rss in samples if begin <= at <= end]
    window = points[-1][0] - points[0][0] if points else 0.0
    median = statistics.median([rss for _, rss in points]) if points else 0
    slope = theil_sen(points)
    limit = max(SMALLEST_LOSS * updates_per_second,
                NOISE * median / max(window, 1.0))
    judged = window >= MIN_WINDOW
    return {
        "window_seconds": window,
        "median_bytes": median,
        "slope_bytes_per_second": slope,
        "limit_bytes_per_second": limit,
        "growth_bytes": slope * window,
        "judged": judged,
        "too_much": judged and slope > limit
    }


def sort_errors(errors, windows):
    """{code: {"announced": n, "other": n}} of (begun, ended, code, details).

    `windows` are (down, up, drained): the signal that ends a server, the moment
    when its successor serves, whether it was SIGTERM. Announced is, to a call
    under way or begun in between, UNAVAILABLE; and, if the server drained,
    CANCELLED: so ends a call that reaches gRPC in the moment when it shuts
    down, before the server sees it.
    """

    def announced(begun, ended, code):
        return any(begun <= up and ended >= down and
                   (code == "UNAVAILABLE" or (code == "CANCELLED" and drained))
                   for down, up, drained in windows)

    sorted_errors = {}
    for begun, ended, code, _ in errors:
        kinds = sorted_errors.setdefault(code, {"announced": 0, "other": 0})
        kinds["announced" if announced(begun, ended, code) else "other"] += 1
    return sorted_errors


def reasons_against(report):
    """Why the soak failed, in words; empty if it passed."""
    reasons = []
    for name, client in report["clients"].items():
        for code, kinds in client["errors"].items():
            if kinds["other"]:
                reasons.append(f"{name}: {kinds['other']} unannounced {code}")
        if client["counts"].get("wrong"):
            reasons.append(
                f"{name}: {client['counts']['wrong']} wrong answers, such as "
                f"{client['wrong']}")
        if client["failure"]:
            reasons.append(f"{name}: {client['failure']}")
        if not client["counts"].get("lookups"):
            reasons.append(f"{name}: looked nothing up")
    for name, library in report["library"].items():
        if library["exit_code"] != 0 or not library.get("batches"):
            reasons.append(f"{name}: {library}")
    for restart in report["restarts"]:
        if restart["exit_code"] != restart["due_code"]:
            reasons.append(f"the server ended with {restart['exit_code']}")
    for rotation in report["rotations"]:
        if rotation["seen_after"] is None:
            reasons.append(f"certificate {rotation['serial']} was never served")
    if report["memory"]["too_much"]:
        reasons.append(f"memory grows: {report['memory']}")
    return reasons


def show(report):
    for name, client in report["clients"].items():
        print(
            f"{name}: {client['counts']}, errors {client['errors'] or 'none'}")
    for name, library in report["library"].items():
        print(f"{name}: {library}")
    for restart in report["restarts"]:
        print(f"{restart['signal']} at {restart['at']:.0f} s: ended after "
              f"{restart['seconds_to_end']:.2f} s, served again "
              f"{restart['seconds_to_serve']:.2f} s later")
    seen = [r["seen_after"] for r in report["rotations"]]
    if seen and None not in seen:
        print(f"{len(seen)} rotations, each served within {max(seen):.1f} s")
    fit = report["memory"]
    print(f"memory: median {fit['median_bytes'] / 1e6:.1f} MB, slope "
          f"{fit['slope_bytes_per_second']:+.0f} bytes/s over "
          f"{fit['window_seconds']:.0f} s; limit "
          f"{fit['limit_bytes_per_second']:.0f}" +
          ("" if fit["judged"] else ": too short a time to judge"))
    for reason in report["reasons"]:
        print(f"WRONG: {reason}")
    print(f"{report['verdict']}: {report['seconds']:.0f} s of soaking")


def plot(report, path):
    """Draws memory and lookups over time. Needs matplotlib."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.append(os.path.join(here, "../../benchmarks"))
    import plot as picture

    pyplot = picture.plt
    figure, (top, below) = pyplot.subplots(2, 1, sharex=True, figsize=(10, 6))
    samples = report["samples"]
    for life in sorted({life for _, life, _ in samples}):
        top.plot([at for at, number, _ in samples if number == life],
                 [rss / 1e6 for _, number, rss in samples if number == life],
                 color="tab:blue")
    fit = report["memory"]
    top.set_ylabel("server VmRSS, MB")
    top.set_ylim(bottom=0)
    top.set_title(f"slope of the last {fit['window_seconds']:.0f} s: "
                  f"{fit['slope_bytes_per_second'] * 3600 / 1e6:+.2f} MB/h "
                  f"(limit {fit['limit_bytes_per_second'] * 3600 / 1e6:.2f}" +
                  (")" if fit["judged"] else ", not judged)"))
    rates = report["rates"]
    below.plot([at for at, _ in rates], [rate for _, rate in rates])
    below.set_ylabel("checked lookups/s")
    below.set_ylim(bottom=0)
    below.set_xlabel("seconds")
    styles = {"SIGTERM": ("tab:orange", "--"), "SIGKILL": ("tab:red", "-")}
    for axis in (top, below):
        for restart in report["restarts"]:
            color, style = styles[restart["signal"]]
            axis.axvline(restart["at"], color=color, linestyle=style, lw=0.8)
        for rotation in report["rotations"]:
            axis.axvline(rotation["at"], color="tab:green", ls=":", lw=0.8)
    top.plot([], [], color="tab:orange", ls="--", label="SIGTERM")
    top.plot([], [], color="tab:red", label="SIGKILL")
    top.plot([], [], color="tab:green", ls=":", label="new certificate")
    top.legend(loc="lower right")
    figure.tight_layout()
    picture.save(figure, path, dpi=100, colours=32)
