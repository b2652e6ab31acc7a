# SPDX-License-Identifier: Apache-2.0

"""What the dashboard shows, from the top: rows of panels, each a question to
Prometheus. How it becomes Grafana's JSON is in dashboard.py.

In expressions SEL stands for the labels of the chosen servers, TAB for those
and the chosen tables.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Panel:
    title: str
    unit: str  # one of Grafana's
    description: str
    queries: tuple  # of (expression, legend)
    kind: str = "timeseries"  # or stat, table
    width: int = 8  # of 24
    log: bool = False  # scale
    min: int | None = 0


def _one(title, unit, description, expression, legend="{{instance}}", **more):
    return Panel(title, unit, description, ((expression, legend),), **more)


def _percentiles(name: str, percentiles, by: str = "") -> tuple:
    grouping = f"le, instance{', ' + by if by else ''}"
    legend = "{{instance}}" + (f" {{{{{by}}}}}" if by else "")
    return tuple(
        (
            f"histogram_quantile({p / 100:g}, sum by ({grouping}) "
            f"(rate({name}_bucket{{SEL}}[$__rate_interval])))",
            f"{legend} p{p}",
        )
        for p in percentiles
    )


def _rate(metric: str) -> str:
    return f"rate({metric}[$__rate_interval])"


def _stat(title, unit, description, expression, legend=""):
    return _one(
        title, unit, description, expression, legend, kind="stat", width=4
    )


OVERVIEW = [
    _stat("Servers up", "short", "Servers that answer.",
        "count(planb_build_info{SEL})"),
    _stat("All lookups", "ops",
        "Addresses looked up a second, all chosen servers together.",
        f"sum({_rate('planb_lookups_total{SEL}')})"),
    _stat("Slowest p99", "s",
        "The worst server's 99th percentile of the time to answer a batch.",
        "max(instance:planb_lookup_batch_duration_seconds:p99_rate5m{SEL})"),
    _stat("Fewest routes", "short",
        "Routes of the server that has the fewest, all its tables together.",
        "min(sum by (instance) (planb_routes{SEL}))"),
    _stat("Lag of the worst table", "short",
        "Generations accepted and not yet what lookups see; worst table.",
        'max(planb_generation{TAB, stage="accepted"} - ignoring (stage) '
        'planb_generation{TAB, stage="visible"})'),
    _stat("Failing tables", "short",
        "Tables whose last rebuild failed, so that an older generation serves.",
        "sum(planb_rebuild_failing{TAB})"),
    _one("Versions", "short",
        "Version, compiler and search kernel of each server.",
        "planb_build_info{SEL} * on (job, instance) group_left (kernel) "
        "planb_kernel_info{SEL}", "", kind="table", width=24),
]

LOOKUPS = [
    _one("Lookups of each server", "ops", "Addresses looked up a second.",
        _rate("planb_lookups_total{SEL}")),
    Panel("Time to answer a batch", "s",
        "Percentiles of the time inside the server, from a request's arrival "
        "to its reply; waiting for a generation counts.",
        _percentiles("planb_lookup_batch_duration_seconds", (50, 99)), log=True,
    ),
    Panel("Batch size", "short", "Percentiles of the addresses in a batch.",
        _percentiles("planb_lookup_batch_size", (50, 99))),
    _one("Misses", "percentunit", "Share of the addresses that have no route.",
        f"{_rate('planb_lookup_misses_total{SEL}')} "
        f"/ {_rate('planb_lookups_total{SEL}')}"),
    _one("Failed batches", "ops",
        "Batches a second that were answered with an error, by reason.",
        "sum by (instance, reason) "
        f"({_rate('planb_lookup_batch_errors_total{SEL}')})",
        "{{instance}} {{reason}}"),
    _one("Open streams", "short", "BatchLookup calls that are open.",
        "planb_lookup_streams{SEL}"),
    _one("Bytes of lookups", "Bps",
        "Bytes of lookup messages a second, received and sent, framing "
        "excluded.", _rate("planb_lookup_bytes_total{SEL}"),
        "{{instance}} {{direction}}"),
    _one("Back-pressure", "s",
        "Seconds a second for which streams were not read from because their "
        "client did not take its replies, summed over the streams.",
        _rate("planb_lookup_backpressure_seconds_total{SEL}")),
    _one("Slow batches", "ops",
        "Batches a second that took longer than --slow_batch and are in the "
        "log, some of them.", _rate("planb_slow_batches_total{SEL}")),
    _one("Processor time of a lookup", "s",
        "CPU seconds of the process for each address looked up; updates count "
        "as well.", f"{_rate('process_cpu_seconds_total{SEL}')} "
        f"/ {_rate('planb_lookups_total{SEL}')}"),
]

CHANGES = [
    _one("Routes", "short", "Routes of each table and family.",
        "planb_routes{TAB}", "{{instance}} {{table}} {{family}}"),
    _one("Changes of routes", "ops",
        "Changes of single routes a second, by kind and result.",
        "sum by (instance, op, result) "
        f"({_rate('planb_update_operations_total{SEL}')})",
        "{{instance}} {{op}} {{result}}"),
    _one("Update batches", "ops", "Batches of updates a second, by result.",
        "sum by (instance, result) "
        f"({_rate('planb_update_batches_total{SEL}')})",
        "{{instance}} {{result}}"),
    Panel("From accepted to visible", "s",
        "Percentiles of the time from the acceptance of a batch of updates to "
        "its visibility for lookups.",
        _percentiles("planb_visibility_seconds", (50, 99)), log=True),
    _one("Batches not yet visible", "short",
        "Batches of updates that are accepted and not yet visible.",
        "planb_update_queue_batches{SEL}"),
    _one("Generations not visible", "short",
        "Accepted generation less the visible one.",
        'planb_generation{TAB, stage="accepted"} - ignoring (stage) '
        'planb_generation{TAB, stage="visible"}', "{{instance}} {{table}}"),
    Panel("Rebuild time", "s",
        "99th percentile of the time to compile and publish, by kind.",
        _percentiles("planb_rebuild_duration_seconds", (99,), by="kind"),
        log=True),
    Panel("Rebuilds", "ops",
        "Rebuilds a second, by kind, and those that failed.", (
        (_rate("planb_rebuilds_total{SEL}"), "{{instance}} {{kind}}"),
        (_rate("planb_rebuild_failures_total{SEL}"), "{{instance}} failed"),)),
    Panel("Store", "s",
        "Percentiles of the time of a commit. Empty without a store.",
        _percentiles("planb_store_commit_seconds", (50, 99)), log=True),
    _one("Commits that failed", "ops",
        "Commits a second that the store refused.",
        _rate("planb_store_errors_total{SEL}")),
]

MEMORY = [
    _one("Promised of what is allowed", "percentunit",
        "Bytes that tables may come to, as admission counts them, of "
        "--max_table_memory_bytes.", "instance:planb_memory_bound:ratio{SEL}"),
    _one("Over a limit", "short",
        "1: the table has more than --max_routes or --max_next_hops allow, and "
        "takes no more.", "planb_over_limit{TAB}",
        "{{instance}} {{table}} {{limit}}"),
    Panel("Tables", "bytes",
        "Bytes held by routes, search structures (the visible ones, and older "
        "ones that lookups still read) and the history for watchers.", tuple(
        (f"sum by (instance) ({name}{{TAB}})", "{{instance}} " + legend)
        for name, legend in (("planb_rib_bytes", "RIB"),
        ("planb_fib_bytes", "FIB"), ("planb_retired_fib_bytes", "old FIBs"),
        ("planb_history_bytes", "history"),))),
    _one("Resident", "bytes", "Resident memory of the process.",
        "process_resident_memory_bytes{SEL}"),
    _one("Oldest FIB still read", "s",
        "For how long a FIB that was replaced has still been read. Grows if a "
        "lookup never ends.", "planb_oldest_fib_age_seconds{TAB}",
        "{{instance}} {{table}}"),
    _one("Processors", "short", "Processors in use: CPU seconds a second.",
        _rate("process_cpu_seconds_total{SEL}")),
    _one("File descriptors", "percentunit",
        "Open file descriptors, of those that may be open.",
        "process_open_fds{SEL} / process_max_fds{SEL}"),
]

SECURITY = [
    _one("Certificates", "s",
        "Time until the first certificate expires, of the server (server), of "
        "its clients' authorities (ca), and for etcd, the followed server and "
        "the collector. Far below zero: no TLS.",
        "planb_tls_certificate_expiry_timestamp_seconds{SEL} - time()",
        "{{instance}} {{kind}}", min=None),
    _one("Certificates replaced", "short",
        "Replacements of certificate files within the hour, by what became of "
        "them.", "increase(planb_tls_reloads_total{SEL}[1h])",
        "{{instance}} {{kind}} {{result}}"),
    _one("Denied calls", "ops",
        "Calls a second that the authorization policy denied, by service.",
        _rate("planb_authorization_denied_total{SEL}"),
        "{{instance}} {{service}}"),
    _one("Policies that could not be used", "ops",
        "Attempts a second to read an authorization policy that failed.",
        _rate("planb_authorization_policy_errors_total{SEL}")),
    _one("Refused peers", "ops",
        "Connections a second over Unix sockets that were refused for the "
        "peer's user or group.", _rate("planb_peers_refused_total{SEL}")),
]

FEED = [
    Panel("State of feeds", "short",
        "1 while the feed's table is complete, while it follows the server, and "
        "(bad) if another writer has taken its table. Empty without planb-feed.",
        tuple((f"planb_feed_{name}{{SEL}}", "{{instance}} " + name)
              for name in ("ready", "connected", "fenced"))),
    _one("Sessions of sources", "short",
        "Sessions that are telling all they have, follow changes, or are lost.",
        "planb_feed_source_sessions{SEL}", "{{instance}} {{source}} {{state}}"),
    Panel("Routes of sources", "short",
        "Routes that each source has, and of those the stale ones: of lost "
        "sessions, or not told again yet. Held ones of a feed wait for a sweep by "
        "hand.", (
        ("planb_feed_source_routes{SEL}", "{{instance}} {{source}}"),
        ("planb_feed_source_stale_routes{SEL}", "{{instance}} {{source}} stale"),
        ("planb_feed_held_routes{SEL}", "{{instance}} held"),)),
    Panel("From a source's change to visible", "s",
        "Percentiles of the time from the oldest change of a batch until lookups "
        "see it.", _percentiles("planb_feed_visible_seconds", (50, 99)), log=True),
    Panel("Changes by feeds", "ops",
        "Changes a second that feeds made visible, and batches that the server "
        "refused.", (
        (_rate("planb_feed_changes_total{SEL}"), "{{instance}} {{what}}"),
        (_rate("planb_feed_rejected_batches_total{SEL}"), "{{instance}} refused"),)),
    Panel("Routes that went without a word", "ops",
        "Routes a second that a source did not tell again (swept), whose session "
        "was lost for too long (expired), or that no server takes (refused).",
        tuple((_rate(f"planb_feed_source_{name}_routes_total{{SEL}}"),
               "{{instance}} {{source}} " + name)
              for name in ("swept", "expired", "refused"))),
]

ROWS = [
    ("Overview", OVERVIEW),
    ("Lookups", LOOKUPS),
    ("Routes and changes", CHANGES),
    ("Feeds", FEED),
    ("Memory and process", MEMORY),
    ("Security", SECURITY),
]
