// SPDX-License-Identifier: Apache-2.0

package bgp

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
	"unique"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/config/oc"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"planb.dev/lookup/feed/bgproute"
	"planb.dev/lookup/feed/source"
)

// The longest that a change waits for others that the sink takes with it.
const linger = 5 * time.Millisecond

// The most routes of one path that are kept to be shared. With all attributes there are some
// hundred thousand in a full table, and those that are gone stay until there are too many.
const maxAlone = 1 << 18

// watch turns events of GoBGP into what a sink takes. GoBGP queues events without bound
// where they are not taken: an event only changes maps.
type watch struct {
	s         *speaker
	multipath bool

	mu      sync.Mutex
	sink    source.Sink // nil when stopped
	peers   map[netip.Addr]*peer
	local   *peer
	routes  map[source.Key]*route
	changed map[source.Key]*peer     // and whose route the sink has, nil for none
	alone   map[path]*route          // of one path: shared by all prefixes that have it
	room    []path                   // of one prefix, while best makes its route
	batches map[*peer][]source.Route // that flush fills; empty, for their room
	timer   *time.Timer
	quiet   sync.WaitGroup
	// GoBGP has a peer of the address; not to be called in its events.
	hasPeer func(netip.Addr) bool
}

// peer is a session of the sink.
type peer struct {
	session     string
	zone        string
	established bool
	complete    bool
	// The session was lost. GoBGP may have kept paths over the restart, and is silent of
	// those that were told again as they were.
	again bool
	// Counts the times that it was established.
	round uint16
	// Whose kept path GoBGP ended before the session was complete.
	held    map[netip.Prefix]struct{}
	pending []bgp.Family  // whose End-of-RIB did not come
	done    chan struct{} // ends awaitQuiet; nil if it does not run
}

// path is one of GoBGP's best paths of a prefix.
type path struct {
	peer  *peer
	id    uint32
	round uint16 // of the peer when GoBGP told the path
	stale bool
	way   unique.Handle[source.NextHop]
}

// route has several paths where the configuration says use-multiple-paths. It never
// changes: prefixes share it.
type route struct {
	first path
	more  []path
	// As the sink takes it: fresh paths only, and the peer of the first of them.
	told  []source.NextHop
	owner *peer
}

func newWatch(s *speaker, sink source.Sink, set *oc.BgpConfigSet) *watch {
	w := &watch{
		s: s, sink: sink, multipath: set.Global.UseMultiplePaths.Config.Enabled,
		peers:   map[netip.Addr]*peer{},
		routes:  map[source.Key]*route{},
		changed: map[source.Key]*peer{},
		alone:   map[path]*route{},
		batches: map[*peer][]source.Route{},
	}
	// Routes of GoBGP itself, such as of `gobgp global rib add`, have no end mark and no
	// peer that could be lost.
	w.local = &peer{session: "local", established: true}
	w.mu.Lock()
	defer w.mu.Unlock()
	// A peer of the configuration may never come. All are expected before the first session
	// completes: a source whose only session is complete has told all.
	for _, neighbor := range set.Neighbors {
		sink.Lost(w.peer(neighbor.State.NeighborAddress).session)
	}
	sink.Begin(w.local.session)
	if len(set.DynamicNeighbors) > 0 || s.GRPC != "" {
		w.awaitQuiet(w.local, source.Quiet{After: s.Quiet, Share: s.Share}) // for peers that are not known yet
	} else {
		w.complete(w.local)
	}
	return w
}

// stop ends the use of the sink.
func (w *watch) stop() {
	w.mu.Lock()
	w.sink = nil
	w.local.end()
	for _, p := range w.peers {
		p.end()
	}
	w.mu.Unlock()
	w.quiet.Wait()
}

func (p *peer) end() {
	if p.done != nil {
		close(p.done)
		p.done = nil
	}
}

// peer finds the peer of an address. GoBGP leaves the zone out in some places.
func (w *watch) peer(address netip.Addr) *peer {
	if !address.IsValid() || address.IsUnspecified() {
		return w.local
	}
	if p := w.peers[address]; p != nil {
		return p
	}
	if address.IsLinkLocalUnicast() {
		for known, p := range w.peers {
			if known.WithZone("") == address.WithZone("") && (known.Zone() == "" || address.Zone() == "") {
				return p
			}
		}
	}
	p := &peer{session: address.String(), zone: address.Zone()}
	w.peers[address] = p
	return p
}

// best takes changes of best paths. With several paths a prefix they come as ends and new
// paths in any number; with one, a path takes the place of the one before.
func (w *watch) best(paths []*apiutil.Path) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sink == nil {
		return
	}
	for _, p := range paths {
		prefix, ok := bgproute.Prefix(p.Family, p.Nlri)
		if !ok {
			continue
		}
		from := w.peer(p.PeerAddress)
		k := source.KeyOf(prefix)
		old := w.routes[k]
		if _, ok := w.changed[k]; !ok {
			owner := (*peer)(nil)
			if old != nil {
				owner = old.owner
			}
			w.changed[k] = owner
		}
		all := w.room[:0]
		if w.multipath {
			all = old.appendTo(all)
		}
		all = slices.DeleteFunc(all, func(other path) bool { return other.peer == from && other.id == p.RemoteID })
		if !p.Withdrawal {
			if way, ok := w.way(p, from); ok && bgproute.Crowded(all, func(other path) bool { return other.peer == from }) {
				w.s.crowded.Inc()
			} else if ok {
				all = append(all, path{from, p.RemoteID, from.round, p.Stale || bgproute.IsLongStale(p.Attrs), unique.Make(way)})
			} else {
				w.s.nowhere.Inc()
			}
		}
		if len(all) == 0 {
			if old != nil {
				old.first.peer.hold(prefix, old.first)
			}
			delete(w.routes, k)
		} else {
			w.routes[k] = w.route(all)
		}
		w.room = all
	}
	if w.timer == nil && len(w.changed) > 0 {
		w.timer = time.AfterFunc(linger, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.flush()
		})
	}
}

func (p *peer) holds(prefix netip.Prefix) bool {
	_, held := p.held[prefix]
	return held
}

// hold keeps the answer of a path of an earlier session, which GoBGP ends at the peer's
// End-of-RIB if the peer did not repeat it: that may be too few.
func (p *peer) hold(prefix netip.Prefix, ended path) {
	if p.established && !p.complete && ended.round != p.round {
		p.held[prefix] = struct{}{}
	}
}

func (w *watch) route(all []path) *route {
	if len(all) > 1 {
		return newRoute(all)
	}
	r := w.alone[all[0]]
	if r == nil {
		// Those of sessions that ended stay.
		if len(w.alone) >= maxAlone {
			clear(w.alone)
		}
		r = newRoute(all)
		w.alone[all[0]] = r
	}
	return r
}

func newRoute(all []path) *route {
	// Kept paths count only where there is no other.
	fresh := slices.DeleteFunc(slices.Clone(all), func(p path) bool { return p.stale })
	if len(fresh) == 0 {
		fresh = all
	}
	r := &route{first: all[0], more: slices.Clone(all[1:]), owner: fresh[0].peer}
	for i, p := range fresh {
		if !slices.ContainsFunc(fresh[:i], func(o path) bool { return o.way == p.way }) {
			r.told = append(r.told, p.way.Value())
		}
	}
	return r
}

func (r *route) appendTo(to []path) []path {
	if r == nil {
		return to
	}
	return append(append(to, r.first), r.more...)
}

// way is the path as the sink takes it; false if it says no next hop and is not of GoBGP
// itself.
func (w *watch) way(p *apiutil.Path, from *peer) (source.NextHop, bool) {
	address := bgproute.Gateway(p.Attrs)
	if !address.IsValid() || address.IsUnspecified() {
		address = netip.Addr{}
		if from != w.local {
			if !p.PeerAddress.IsLinkLocalUnicast() {
				return source.NextHop{}, false
			}
			address = p.PeerAddress
		}
	}
	if address.IsLinkLocalUnicast() && address.Zone() == "" {
		address = address.WithZone(from.zone)
	}
	way := source.NextHop{Gateway: address, Attributes: w.s.Attributes.Of(p.Attrs, p.PeerASN)}
	if way.Gateway == (netip.Addr{}) {
		way.Label = "local"
	}
	return way, true
}

// flush tells what changed.
func (w *watch) flush() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	if w.sink == nil || len(w.changed) == 0 {
		return
	}
	for k, owner := range w.changed {
		route := source.Route{Prefix: k.Prefix()}
		if r := w.routes[k]; r != nil {
			owner, route.Paths = r.owner, r.told
		} else if owner == nil || owner.holds(route.Prefix) {
			continue
		}
		batch := append(w.batches[owner], route)
		if len(batch) == source.MaxApply { // a table that is told again needs no copy
			w.sink.Apply(owner.session, batch)
			batch = batch[:0]
		}
		w.batches[owner] = batch
	}
	clear(w.changed)
	for owner, batch := range w.batches {
		if len(batch) > 0 {
			w.sink.Apply(owner.session, batch)
			w.batches[owner] = batch[:0]
		}
	}
}

// dropped comes before the ends of the paths that GoBGP itself takes from a peer: the
// session ended, or did not come back in time. The event of the peer comes after them. The
// sink holds what a lost session withdraws.
func (w *watch) dropped(paths []*apiutil.Path) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sink == nil || len(paths) == 0 {
		return
	}
	w.flush()
	w.leave(w.peer(paths[0].PeerAddress))
}

func (w *watch) leave(p *peer) {
	if p == w.local {
		return
	}
	// The sink is told once: a session that it forgot meanwhile would be expected again.
	if p.established {
		w.s.established.Dec()
		w.s.lost.Inc()
		w.sink.Lost(p.session)
	}
	p.established, p.complete, p.again = false, false, true
	p.held = nil
	p.end()
}

func (w *watch) peerEvent(event *apiutil.WatchEventMessage_PeerEvent) {
	if event.Type != apiutil.PEER_EVENT_STATE && event.Type != apiutil.PEER_EVENT_INIT {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sink == nil {
		return
	}
	w.flush()
	state := event.Peer.State
	p := w.peer(state.NeighborAddress)
	if state.SessionState != bgp.BGP_FSM_ESTABLISHED {
		if p.established {
			w.leave(p) // GoBGP keeps all paths for a restart
		}
		if event.Type == apiutil.PEER_EVENT_STATE && state.SessionState == bgp.BGP_FSM_IDLE && w.hasPeer != nil {
			w.quiet.Go(func() { w.forgetIfGone(p, state) })
		}
		return
	}
	if p.established {
		return
	}
	p.established = true
	p.round++
	p.held = map[netip.Prefix]struct{}{}
	w.s.established.Inc()
	if p.zone == "" {
		p.zone = zone(event.Peer.Conf.NeighborInterface, state.NeighborAddress)
	}
	p.pending = bgproute.Negotiated(state.LocalCap, state.RemoteCap)
	w.sink.Begin(p.session)
	if len(p.pending) == 0 || !sendsEndOfRIB(state.RemoteCap) {
		p.pending = nil
		w.awaitQuiet(p, source.Quiet{After: w.s.Quiet, Share: w.s.Share})
	} else {
		w.awaitQuiet(p, source.Quiet{After: endWait * w.s.Quiet, Share: w.s.Share})
	}
}

// forgetIfGone forgets a peer that GoBGP has no more. Nothing is expected of one that was
// deleted, which GoBGP tells as the end without a reason, and its routes go; it may also be
// deleted and made anew. A dynamic one that went away may come back: its routes stay for the
// stale time.
func (w *watch) forgetIfGone(p *peer, state apiutil.PeerState) {
	if w.hasPeer(state.NeighborAddress) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sink == nil || p == w.local || p.established {
		return
	}
	w.flush()
	delete(w.batches, p)
	maps.DeleteFunc(w.peers, func(_ netip.Addr, other *peer) bool { return other == p })
	if state.DisconnectReason == api.PeerState_DISCONNECT_REASON_UNSPECIFIED {
		w.s.Log.Info("a peer was deleted", "session", p.session)
		w.sink.Forget(p.session)
	}
}

// A peer that announced End-of-RIB may pause so many times longer before it.
const endWait = 6

// told is a sink that counts kept paths as told: GoBGP still has them. The session of
// GoBGP's own routes waits for all that the source tells.
type told struct {
	source.Sink
	w *watch
	p *peer
}

func (t told) Progress(session string) (int, int) {
	t.w.mu.Lock()
	t.w.retell(t.p)
	routes := len(t.w.routes)
	t.w.mu.Unlock()
	told, unrepeated := t.Sink.Progress(session)
	if t.p == t.w.local {
		told = routes
	}
	return told, unrepeated
}

// awaitQuiet completes the session of a peer whose End-of-RIB does not come, or came
// before enough routes were told again.
func (w *watch) awaitQuiet(p *peer, quiet source.Quiet) {
	p.end()
	done, sink := make(chan struct{}), told{w.sink, w, p}
	p.done = done
	w.quiet.Add(1)
	go func() {
		defer w.quiet.Done()
		if !quiet.Await(done, sink, p.session, w.s.Log, w.s.refused.Inc) {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.sink != nil && p.done == done {
			w.complete(p)
		}
	}()
}

func (w *watch) endOfRIB(address netip.Addr, family bgp.Family) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.peer(address)
	if w.sink == nil || !p.established || p.complete || !slices.Contains(p.pending, family) {
		return
	}
	p.pending = slices.DeleteFunc(p.pending, func(f bgp.Family) bool { return f == family })
	if len(p.pending) > 0 {
		return
	}
	w.flush()
	quiet := source.Quiet{After: w.s.Quiet, Share: w.s.Share, Believe: source.BelieveWait * w.s.Quiet}
	if p.again {
		// GoBGP ends what the peer did not repeat after this event. What is left then is
		// told as repeated.
		w.sink.Begin(p.session)
	} else if quiet.Ended(w.sink, p.session, w.s.Log, w.s.refused.Inc) {
		w.complete(p)
		return
	}
	w.awaitQuiet(p, quiet)
}

// retell tells the routes of a peer that came back, of which GoBGP is silent.
func (w *watch) retell(p *peer) {
	if p.again && p.established {
		for k, r := range w.routes {
			if r.owner != p {
				continue
			}
			if _, ok := w.changed[k]; !ok {
				w.changed[k] = p
			}
		}
	}
	w.flush()
}

func (w *watch) complete(p *peer) {
	p.end()
	w.retell(p)
	p.again, p.complete = false, true
	for prefix := range p.held {
		if k := source.KeyOf(prefix); w.routes[k] == nil {
			w.changed[k] = p
		}
	}
	p.held = nil
	w.flush()
	w.sink.Complete(p.session)
}

func sendsEndOfRIB(remote []bgp.ParameterCapabilityInterface) bool {
	return slices.ContainsFunc(remote, func(c bgp.ParameterCapabilityInterface) bool {
		return c.Code() == bgp.BGP_CAP_GRACEFUL_RESTART
	})
}

// zone is the interface by which a peer is reached: link-local next hops are on it.
func zone(configured string, peer netip.Addr) string {
	if configured != "" {
		return configured
	}
	if peer.Zone() != "" {
		return peer.Zone()
	}
	// Sends nothing, and binds the address that packets to the peer would have.
	connection, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(peer, 179)))
	if err != nil {
		return ""
	}
	defer connection.Close()
	local := connection.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			if network, ok := a.(*net.IPNet); ok {
				if address, ok := netip.AddrFromSlice(network.IP); ok && address.Unmap() == local {
					return i.Name
				}
			}
		}
	}
	return ""
}
