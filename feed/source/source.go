// SPDX-License-Identifier: Apache-2.0

// Package source is what a source of routes and the core of planb-feed know of
// each other.
//
// A source (a routing daemon, the kernel, a file) tells routes in sessions: a BGP
// peer, a connection, a dump that is followed. The core merges sources, remembers
// what each told, and brings the difference to the server. A source therefore
// repeats everything whenever it is in doubt: what did not change costs nothing,
// and nothing is removed before the source says that it told all.
package source

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// NextHop is one way that packets take. Equal ones are one object of the server.
type NextHop struct {
	// The gateway, with its zone if it is link-local and Interface is empty. The
	// zero Addr for a route without one: connected, blackhole.
	Gateway   netip.Addr
	Interface string
	// The share of the flows among the paths of one route; 0 means 1.
	Weight uint32
	// Free text that is part of what the next hop means, such as "blackhole".
	Label string
	// What a route to it means besides, and a part of what makes two of them equal.
	Attributes Attributes
	// If not 0, the server's id of a next hop or group that something else
	// describes. The other fields but Weight do not count then. Ids from the
	// configuration's first_id on are the feed's own and refused.
	ID uint32
}

// Route is what a source says of one prefix. Without paths, that it has none: a
// withdrawal. Several paths are one route of several next hops (ECMP): all of them
// each time, in any order.
type Route struct {
	Prefix netip.Prefix // of IPv4 or IPv6, without host bits
	Paths  []NextHop
	// There is a route, but not yet what it says, such as one whose next hop is told
	// later. The answer that the prefix has stays, as if it was repeated, also one that
	// the server had when the feed started. Paths do not count.
	Keep bool
}

// Sink takes what a source tells. Its calls are safe for concurrent use and return
// at once: none waits for the server. Sessions are named by the source; one session
// is "". A source has one route of a prefix: the session that told it last owns it.
//
// A session is told, then either followed or lost:
//
//	Begin, Apply..., Complete, Apply..., Begin, Apply..., Complete, Lost, Begin, ...
type Sink interface {
	// Begin says that the session tells all its routes from here on, maybe again.
	// What it told before stays until Complete. While a session is begun the stale
	// clock does not run: the source decides when to call Complete or Lost. It goes on where
	// it stood if the session is lost before Complete, for what was not repeated.
	Begin(session string)

	// Apply changes routes of the session, in order. The last word on a prefix counts,
	// and lookups see none of those before it. A withdrawal by a session
	// that does not own the route is ignored, and one by a lost session is held
	// until the route's stale time. The core keeps nothing of the slices.
	Apply(session string, routes []Route)

	// Complete says that the session has told all since Begin: its routes that were
	// not repeated are withdrawn (sweep), unless they are so many that the sweep waits.
	Complete(session string)

	// Lost says that the session ended. Its routes stay for the source's
	// stale_time, and then go, unless it begins again before. A session may be
	// lost before it ever began: then it is expected, and the feed is not ready.
	// One that was not, and is not "", is forgotten when it is lost for that time:
	// its name came and went.
	Lost(session string)

	// Forget removes a session and its routes at once: nothing is expected of it any
	// more, such as of a peer that an operator deleted.
	Forget(session string)

	// Progress counts the routes of the session that were told since Begin, and those
	// that it may yet repeat: its own ones, and its part of the routes that the server
	// had when the feed started and that no source has claimed. That part is the
	// session's part of all that was told; all of them if it has told none. They do
	// not count any more once the source had its stale_time to claim them. For sources
	// without an end mark.
	Progress(session string) (told, unrepeated int)
}

// MaxApply is the most routes that a source tells with one call: the core is locked for as long,
// and keeps as many beside its table.
const MaxApply = 4096

// ApplyAll tells routes with as many calls as they need.
func ApplyAll(sink Sink, session string, routes []Route) {
	for some := range slices.Chunk(routes, MaxApply) {
		sink.Apply(session, some)
	}
}

// Source tells routes to a Sink.
type Source interface {
	// Run tells routes until ctx ends, and then returns nil. After an error the core
	// calls Lost for all sessions of the source, and runs it again after a pause:
	// Run can be called more than once, one call at a time. It returns only
	// when none of its goroutines uses the sink any more.
	Run(ctx context.Context, sink Sink) error
}

// Options is what a source is made of.
type Options struct {
	// The source's name in the configuration, for messages.
	Name string
	// Reads the source's own section of the configuration into a struct with `yaml`
	// tags, strictly: an unknown key is an error that names its line.
	Decode func(into any) error
	// Has the source's name already.
	Log *slog.Logger
	// For metrics of the source; labels them with the source's name.
	Metrics prometheus.Registerer
}

// Counter is a metric of the source, planb_feed_NAME.
func (o Options) Counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "planb_feed_" + name, Help: help})
	o.Metrics.MustRegister(c)
	return c
}

// Gauge is a metric of the source, planb_feed_NAME.
func (o Options) Gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "planb_feed_" + name, Help: help})
	o.Metrics.MustRegister(g)
	return g
}

// New makes a source of a kind, and refuses a configuration that it cannot use. It
// opens nothing: --check calls it, too. The kinds are listed in cmd/planb-feed.
type New func(Options) (Source, error)
