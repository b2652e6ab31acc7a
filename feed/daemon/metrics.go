// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"planb.dev/lookup/feed/rib"
)

// What /metrics shows. METRICS.md has the table of them.
type metrics struct {
	daemon  *Daemon
	changes *prometheus.CounterVec
	batches prometheus.Counter
	lag     prometheus.Histogram
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("planb_feed_"+name, help, labels, nil)
}

var (
	routes    = describe("source_routes", "Routes that a source has.", "source")
	stale     = describe("source_stale_routes", "Routes of lost sessions, or not repeated yet.", "source")
	refused   = describe("source_refused_routes_total", "Routes that cannot be one of the server.", "source")
	swept     = describe("source_swept_routes_total", "Routes that a session did not repeat.", "source")
	expired   = describe("source_expired_routes_total", "Routes whose session was lost for too long.", "source")
	sessions  = describe("source_sessions", "Sessions: telling all, following changes, lost.", "source", "state")
	prefixes  = describe("prefixes", "Prefixes that a source or the server has.")
	pending   = describe("pending_prefixes", "Prefixes that may differ from what the server has.")
	held      = describe("held_routes", "Routes that wait for a sweep by hand (SIGUSR1).")
	connected = describe("connected", "1 while the server is followed.")
	ready     = describe("ready", "1 while all that sources told is visible, and every source has told all.")
	fenced    = describe("fenced", "1 if another writer has taken the table.")
	resyncs   = describe("resyncs_total", "Lists of what the server has, each followed by the difference.")
	unused    = describe("unused_objects_removed_total", "Next hops and groups that no route named, and that were removed.")
	rejected  = describe("rejected_batches_total", "Batches that the server refused.")
)

func newMetrics(d *Daemon) *metrics {
	m := &metrics{daemon: d,
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "planb_feed_changes_total",
			Help: "Visible changes: announced, withdrawn, next_hops, groups."}, []string{"what"}),
		batches: prometheus.NewCounter(prometheus.CounterOpts{Name: "planb_feed_batches_total",
			Help: "Batches that are visible."}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "planb_feed_visible_seconds",
			Help:    "From the oldest change of a batch until the batch is visible.",
			Buckets: []float64{.005, .01, .02, .03, .05, .07, .1, .2, .5, 1, 2, 5, 10, 30}}),
	}
	return m
}

func (m *metrics) visible(b *rib.Batch, at time.Time) {
	m.batches.Inc()
	m.changes.WithLabelValues("announced").Add(float64(b.Announced))
	m.changes.WithLabelValues("withdrawn").Add(float64(b.Withdrawn))
	m.changes.WithLabelValues("next_hops").Add(float64(len(b.NextHops)))
	m.changes.WithLabelValues("groups").Add(float64(len(b.Groups)))
	m.lag.Observe(at.Sub(b.Since).Seconds())
}

// Describe is prometheus.Collector's.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	m.changes.Describe(to)
	m.batches.Describe(to)
	m.lag.Describe(to)
	for _, d := range []*prometheus.Desc{routes, stale, refused, swept, expired, sessions, prefixes, pending, held,
		connected, ready, fenced, resyncs, unused, rejected} {
		to <- d
	}
}

// Collect is prometheus.Collector's.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	m.changes.Collect(to)
	m.batches.Collect(to)
	m.lag.Collect(to)
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	count := func(d *prometheus.Desc, value uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	flag := func(d *prometheus.Desc, value bool) {
		if value {
			gauge(d, 1)
		} else {
			gauge(d, 0)
		}
	}
	table, written := m.daemon.routes.Stats(), m.daemon.writer.Stats()
	for _, s := range table.Sources {
		gauge(routes, s.Routes, s.Name)
		gauge(stale, s.Stale, s.Name)
		count(refused, s.Refused, s.Name)
		count(swept, s.Swept, s.Name)
		count(expired, s.Expired, s.Name)
		gauge(sessions, s.Telling, s.Name, "telling")
		gauge(sessions, s.Following, s.Name, "following")
		gauge(sessions, s.Lost, s.Name, "lost")
	}
	gauge(prefixes, table.Prefixes)
	gauge(pending, table.Pending)
	gauge(held, table.Held)
	flag(connected, written.Connected)
	flag(ready, written.Ready)
	flag(fenced, written.Fenced)
	count(resyncs, written.Resyncs)
	count(rejected, written.Refused)
	count(unused, written.Unused)
}
