// SPDX-License-Identifier: Apache-2.0

package bmp

import (
	"cmp"
	"slices"
	"sync"
	"unique"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"planb.dev/lookup/feed/bgproute"
	"planb.dev/lookup/feed/source"
)

// table has the paths of all peers that are up, and tells a sink the best. What a peer
// that is down has told, the sink keeps.
type table struct {
	s    *station
	sink source.Sink

	mu      sync.Mutex
	routes  map[source.Key]*route
	changed map[source.Key]*peer // and whose route the sink has, nil for none
	alone   map[path]*route      // of one path: shared by all prefixes that have it
	quiet   sync.WaitGroup
}

// peer is a session of the sink.
type peer struct {
	session   string
	rank      int // the lowest counts
	as        uint32
	addPath   map[bgp.Family]bgp.BGPAddPathMode
	multipath bool
	pending   []bgp.Family // whose End-of-RIB did not come
	complete  bool
	done      chan struct{} // ends awaitQuiet; nil if it does not run
	lost      bool          // paths of it may be left, and do not count
}

// The most routes of one path that are kept to be shared: see bgp.
const maxAlone = 1 << 18

type path struct {
	peer  *peer
	id    uint32
	stale bool
	way   unique.Handle[source.NextHop]
}

// route has the paths of a prefix, of the best peer first. It never changes: prefixes
// share it.
type route struct {
	paths []path
	told  []source.NextHop
}

func (r *route) owner() *peer { return r.paths[0].peer }

func newTable(s *station, sink source.Sink) *table {
	t := &table{s: s, sink: sink, routes: map[source.Key]*route{}, changed: map[source.Key]*peer{},
		alone: map[path]*route{}}
	// Nothing is withdrawn before all that the configuration names have told all.
	for _, router := range s.Routers {
		if s.RIB == locRIB {
			sink.Lost(router.String())
		}
		for _, peer := range s.Peers {
			sink.Lost(peerSession(router, peer))
		}
	}
	return t
}

// change announces paths that go a way, or withdraws them: those that were announced without
// one, too, which have taken the place of others all the same. REQUIRES: mu is held.
func (t *table) change(p *peer, family bgp.Family, nlris []bgp.PathNLRI, way *source.NextHop, stale, announced bool) {
	var shared unique.Handle[source.NextHop]
	if way != nil {
		shared = unique.Make(*way)
	}
	for _, nlri := range nlris {
		prefix, ok := bgproute.Prefix(family, nlri.NLRI)
		if !ok {
			continue
		}
		k := source.KeyOf(prefix)
		old := t.routes[k]
		t.touch(k, old)
		var all []path
		if old != nil {
			all = slices.DeleteFunc(slices.Clone(old.paths), func(o path) bool {
				return o.peer.lost || o.peer == p && (o.id == nlri.ID || announced && !p.multipath)
			})
		}
		if way != nil && !bgproute.Crowded(all, func(o path) bool { return o.peer == p }) {
			all = append(all, path{p, nlri.ID, stale, shared})
		} else if way != nil {
			t.s.crowded.Inc()
		}
		t.put(k, all)
	}
}

// touch notes that a route changes.
func (t *table) touch(k source.Key, old *route) {
	if _, ok := t.changed[k]; !ok {
		t.changed[k] = nil
		if old != nil {
			t.changed[k] = old.owner()
		}
	}
}

func (t *table) put(k source.Key, all []path) {
	switch len(all) {
	case 0:
		delete(t.routes, k)
		return
	case 1:
		if known := t.alone[all[0]]; known != nil {
			t.routes[k] = known
			return
		}
	}
	slices.SortStableFunc(all, func(a, b path) int { return cmp.Compare(a.peer.rank, b.peer.rank) })
	r := &route{paths: all}
	best := slices.DeleteFunc(slices.Clone(all), func(p path) bool { return p.peer != r.owner() })
	// Paths that are only kept do not stand beside fresh ones.
	if fresh := slices.DeleteFunc(slices.Clone(best), func(p path) bool { return p.stale }); len(fresh) > 0 {
		best = fresh
	}
	for i, p := range best {
		if !slices.ContainsFunc(best[:i], func(o path) bool { return o.way == p.way }) {
			r.told = append(r.told, p.way.Value())
		}
	}
	if len(all) == 1 {
		if len(t.alone) >= maxAlone {
			clear(t.alone)
		}
		t.alone[all[0]] = r
	}
	t.routes[k] = r
}

func (t *table) flushIfLarge() {
	if len(t.changed) >= source.MaxApply {
		t.flush()
	}
}

// tell tells what changed.
func (t *table) tell() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush()
}

func (t *table) flush() {
	batches := map[*peer][]source.Route{}
	for k, owner := range t.changed {
		if r := t.routes[k]; r != nil {
			batches[r.owner()] = append(batches[r.owner()], source.Route{Prefix: k.Prefix(), Paths: r.told})
		} else if owner != nil && !owner.lost {
			batches[owner] = append(batches[owner], source.Route{Prefix: k.Prefix()})
		}
	}
	clear(t.changed)
	for p, routes := range batches {
		source.ApplyAll(t.sink, p.session, routes)
	}
}

func (t *table) begin(p *peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.s.up.Inc()
	t.sink.Begin(p.session)
	t.awaitQuiet(p, source.Quiet{After: t.s.Quiet, Share: t.s.Share})
}

// lose ends peers. What only they had stays in the sink for a while; for the rest the
// next one counts. Messages of others are taken between parts of it.
func (t *table) lose(peers ...*peer) {
	if len(peers) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush()
	for _, p := range peers {
		p.end()
		p.lost = true
		t.s.up.Dec()
		t.sink.Lost(p.session)
	}
	clear(t.alone)
	gone := func(p path) bool { return p.peer.lost }
	seen := 0
	for k, r := range t.routes {
		if slices.ContainsFunc(r.paths, gone) {
			rest := slices.DeleteFunc(slices.Clone(r.paths), gone)
			if len(rest) > 0 {
				t.touch(k, r)
			}
			t.put(k, rest)
		}
		if seen++; seen%source.MaxApply == 0 {
			t.flush()
			t.mu.Unlock()
			t.mu.Lock()
		}
	}
	t.flush()
}

func (p *peer) end() {
	if p.done != nil {
		close(p.done)
		p.done = nil
	}
}

// awaitQuiet completes the session of a peer whose End-of-RIB does not come, or came
// before enough routes were told again.
func (t *table) awaitQuiet(p *peer, quiet source.Quiet) {
	p.end()
	done := make(chan struct{})
	p.done = done
	t.quiet.Go(func() {
		if !quiet.Await(done, t.sink, p.session, t.s.Log, t.s.refused.Inc) {
			return
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if p.done == done {
			t.complete(p)
		}
	})
}

func (t *table) endOfRIB(p *peer, family bgp.Family) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.complete || !slices.Contains(p.pending, family) {
		return
	}
	if p.pending = slices.DeleteFunc(p.pending, func(f bgp.Family) bool { return f == family }); len(p.pending) > 0 {
		return
	}
	t.flush()
	quiet := source.Quiet{After: t.s.Quiet, Share: t.s.Share, Believe: source.BelieveWait * t.s.Quiet}
	if quiet.Ended(t.sink, p.session, t.s.Log, t.s.refused.Inc) {
		t.complete(p)
	} else {
		t.awaitQuiet(p, quiet)
	}
}

func (t *table) complete(p *peer) {
	p.end()
	p.complete = true
	t.flush()
	t.sink.Complete(p.session)
}
