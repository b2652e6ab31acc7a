// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"fmt"
	"net/netip"
	"slices"
	"unique"

	"golang.org/x/sys/unix"

	"planb.dev/lookup/feed/source"
)

// Rules say which routes a Table takes, and by what rules a route replaces another.
type Rules struct {
	Table uint32 // the routing table; routes of others are passed over
	// The protocols whose routes count. Nil: all but Untold.
	Protocols []uint8
	// A prefix has one route, the one told last, as on FRR's connection. Otherwise
	// routes of one prefix differ by metric, as in the kernel.
	OnePerPrefix bool
}

// Untold are the protocols that do not count unless they are named: routes of the
// addresses of links, and what ICMP redirects left.
var Untold = []uint8{unix.RTPROT_REDIRECT, unix.RTPROT_KERNEL}

// Table is one routing table as its messages tell it. It resolves next-hop objects,
// and gives what changed as routes of a source. Not safe for concurrent use.
type Table struct {
	rules   Rules
	link    func(index uint32) string // the name of an interface
	routes  map[netip.Prefix]alternative
	objects map[uint32]*NextHop
	uses    map[uint32]int // routes and groups that name an object
	changed map[netip.Prefix]struct{}
	// Objects that changed although routes name them.
	moved   map[uint32]struct{}
	waiting map[netip.Prefix]struct{} // for an object that is not known
	// Routes of more than MaxHops paths, and those that were not when they were noted.
	oversized map[netip.Prefix]struct{}
	outgrown  []netip.Prefix
	// Untaken counts routes of no table and of one that is known to be another one's.
	Untaken int
	// Doubts counts messages that mean something else if the table has them already, as
	// after a dump.
	Doubts int
}

// alternative is one of the routes of a prefix, in the order in which they are
// preferred.
type alternative struct {
	metric uint32
	group  uint32
	hops   paths // if group is 0
	next   *alternative
}

// paths is a list of hops. Equal lists are one object: hundreds of thousands of routes
// share some hundreds of them.
type paths struct{ list unique.Handle[cell] }

type cell struct {
	hop  Hop
	rest paths
}

func makePaths(hops []Hop) paths {
	var result paths
	for _, hop := range slices.Backward(hops) {
		result = paths{unique.Make(cell{hop, result})}
	}
	return result
}

func (p paths) slice() []Hop {
	var result []Hop
	for p != (paths{}) {
		c := p.list.Value()
		result = append(result, c.hop)
		p = c.rest
	}
	return result
}

// NewTable returns an empty table. `link` names interfaces.
func NewTable(rules Rules, link func(index uint32) string) *Table {
	return &Table{
		rules: rules, link: link,
		routes:  map[netip.Prefix]alternative{},
		objects: map[uint32]*NextHop{},
		uses:    map[uint32]int{},
		changed: map[netip.Prefix]struct{}{},
		moved:   map[uint32]struct{}{},
		waiting: map[netip.Prefix]struct{}{}, oversized: map[netip.Prefix]struct{}{},
	}
}

// Waiting is how many routes wait for an object.
func (t *Table) Waiting() int { return len(t.waiting) }

// Len is how many prefixes have a route.
func (t *Table) Len() int { return len(t.routes) }

// Route applies a message. It returns false if the message contradicts the table, such
// as the end of a route that is not there: messages were missed.
func (t *Table) Route(r *Route) bool {
	if r.Cloned || r.Selective {
		return true
	}
	if r.Table != t.rules.Table {
		// FRR tells the end of a VRF's route with table 0: it is not the main table's.
		if r.Table == 0 {
			t.Untaken++
		}
		return true
	}
	known := true
	switch r.Type {
	case unix.RTN_UNICAST, unix.RTN_BLACKHOLE, unix.RTN_UNREACHABLE, unix.RTN_PROHIBIT:
	case unix.RTN_UNSPEC:
		if !r.Delete {
			return true
		}
	default:
		known = false
	}
	taken := known && t.counts(r.Protocol)
	// A route that does not count takes the place of one that did.
	if t.rules.OnePerPrefix {
		if known || !r.Delete { // FRR says no protocol of an end
			t.set(r.Prefix, nil)
		}
		if taken && !r.Delete {
			t.set(r.Prefix, []alternative{newAlternative(r)})
		}
		return true
	}
	all := t.alternatives(r.Prefix)
	if !taken {
		if r.Replace && !r.Delete {
			t.set(r.Prefix, slices.DeleteFunc(all, func(a alternative) bool { return a.metric == r.Metric }))
		}
		return true
	}
	fits, exact := true, true
	if r.Delete {
		all, fits, exact = without(all, r)
	} else {
		all, exact = with(all, r)
	}
	if !exact {
		t.Doubts++
	}
	t.set(r.Prefix, all)
	return fits
}

func (t *Table) counts(protocol uint8) bool {
	if t.rules.Protocols == nil {
		return !slices.Contains(Untold, protocol)
	}
	return slices.Contains(t.rules.Protocols, protocol)
}

func newAlternative(r *Route) alternative {
	a := alternative{metric: r.Metric, group: r.GroupID}
	if a.group == 0 {
		a.hops = makePaths(r.Hops)
	}
	return a
}

// with adds a route to those of its prefix. One of IPv6 joins its equals: the kernel
// tells a further path alone or all paths anew. One of IPv4 comes first of its metric,
// unless it says otherwise: exact is false then if there are others.
func with(all []alternative, r *Route) (left []alternative, exact bool) {
	added := newAlternative(r)
	if r.Replace {
		if r.Prefix.Addr().Is6() {
			all = slices.DeleteFunc(all, func(a alternative) bool { return a.metric == r.Metric })
		} else if i := slices.IndexFunc(all, func(a alternative) bool { return a.metric == r.Metric }); i >= 0 {
			all[i] = added
			// A message that is told again finds its own route behind.
			rest := slices.DeleteFunc(all[i+1:], func(a alternative) bool { return a == added })
			return all[:i+1+len(rest)], true
		}
	}
	for i, a := range all {
		if a.metric != r.Metric {
			continue
		}
		if a == added {
			return all, true
		}
		if r.Prefix.Addr().Is6() && a.group == 0 && added.group == 0 {
			hops := a.hops.slice()
			for _, hop := range r.Hops {
				if j := indexOf(hops, hop); j >= 0 {
					hops[j] = hop
				} else {
					hops = appendHop(hops, hop)
				}
			}
			all[i].hops = makePaths(hops)
			return all, true
		}
	}
	first := r.Prefix.Addr().Is4() && !r.Append
	at := slices.IndexFunc(all, func(a alternative) bool {
		return a.metric > r.Metric || first && a.metric == r.Metric
	})
	if at < 0 {
		at = len(all)
	}
	exact = at == len(all) || all[at].metric != r.Metric
	return slices.Insert(all, at, added), exact
}

// without takes a route away, or those of its paths that the message names. fits is false
// if it is not there, and exact if another one of its metric is.
func without(all []alternative, r *Route) (left []alternative, fits, exact bool) {
	gone := newAlternative(r)
	at := slices.Index(all, gone)
	if at < 0 {
		at = slices.IndexFunc(all, func(a alternative) bool { return a.metric == r.Metric })
		if at < 0 {
			return all, false, true
		}
		if r.Prefix.Addr().Is4() && (gone.group != 0 || len(r.Hops) > 0) {
			return all, false, false
		}
	}
	if r.Prefix.Addr().Is6() && all[at].group == 0 && gone.group == 0 && len(r.Hops) > 0 {
		hops := all[at].hops.slice()
		before := len(hops)
		if before > MaxHops {
			return all, false, false // how many are left is not known
		}
		for _, hop := range r.Hops {
			if j := indexOf(hops, hop); j >= 0 {
				hops = slices.Delete(hops, j, j+1)
			}
		}
		if len(hops) == before {
			return all, false, false
		}
		if len(hops) > 0 {
			all[at].hops = makePaths(hops)
			return all, true, true
		}
	}
	return slices.Delete(all, at, at+1), true, true
}

// indexOf finds a path; its weight is not part of what it is.
func indexOf(hops []Hop, wanted Hop) int {
	return slices.IndexFunc(hops, func(hop Hop) bool {
		hop.Weight = wanted.Weight
		return hop == wanted
	})
}

func (t *Table) alternatives(prefix netip.Prefix) []alternative {
	var result []alternative
	if first, ok := t.routes[prefix]; ok {
		for a := &first; a != nil; a = a.next {
			result = append(result, *a)
			result[len(result)-1].next = nil
		}
	}
	return result
}

func (t *Table) set(prefix netip.Prefix, all []alternative) {
	if first, ok := t.routes[prefix]; ok {
		for a := &first; a != nil; a = a.next {
			t.use(a.group, -1)
		}
	}
	t.changed[prefix] = struct{}{}
	if len(all) == 0 {
		delete(t.routes, prefix)
		return
	}
	for i := range all {
		t.use(all[i].group, 1)
		if i > 0 {
			all[i-1].next = &all[i]
		}
	}
	t.routes[prefix] = all[0]
}

func (t *Table) use(id uint32, by int) {
	if id == 0 {
		return
	}
	if t.uses[id] += by; t.uses[id] == 0 {
		delete(t.uses, id)
	}
}

// NextHop applies a message. It returns false if an object ended that routes still name:
// the kernel ended these routes, and does not tell of those of IPv4.
func (t *Table) NextHop(n *NextHop) bool {
	if n.FDB {
		return true
	}
	old := t.objects[n.ID]
	if n.Delete || n.Unread {
		if old != nil {
			t.forget(old)
		}
		delete(t.objects, n.ID)
		if n.Delete {
			return t.uses[n.ID] == 0
		}
		t.moved[n.ID] = struct{}{} // its routes wait for it
		return true
	}
	if old != nil && old.Hop == n.Hop && slices.Equal(old.Group, n.Group) {
		return true
	}
	if old != nil {
		t.forget(old)
	}
	t.objects[n.ID] = n
	for _, member := range n.Group {
		t.use(member.ID, 1)
	}
	if t.uses[n.ID] > 0 {
		t.moved[n.ID] = struct{}{}
	}
	return true
}

func (t *Table) forget(n *NextHop) {
	for _, member := range n.Group {
		t.use(member.ID, -1)
	}
}

// maxDepth bounds groups of groups, and so ends a circle of them.
const maxDepth = 4

// maxShare bounds the weight of a path, so that neither its product with that of a member
// nor the sum of MaxHops overflows.
const maxShare = 1 << 16

// Changes returns the routes of the prefixes that changed, and forgets that they did. A
// route whose object is not known keeps its old answer; one of too many paths has none, and
// no other of its prefix answers for it. One by an interface without a name
// is told with its number, and among the changes again until it has one.
func (t *Table) Changes() []source.Route {
	if len(t.moved) > 0 {
		t.touchUsers()
	}
	routes := t.resolve(t.changed)
	if len(t.changed) == 0 && len(routes) > 1000 { // a map does not shrink
		t.changed = map[netip.Prefix]struct{}{}
	}
	return routes
}

// touchUsers marks the prefixes whose route leads to an object that changed.
func (t *Table) touchUsers() {
	for range maxDepth {
		for id, object := range t.objects {
			for _, member := range object.Group {
				if _, ok := t.moved[member.ID]; ok {
					t.moved[id] = struct{}{}
				}
			}
		}
	}
	for prefix, a := range t.routes {
		if _, ok := t.moved[a.group]; ok {
			t.changed[prefix] = struct{}{}
		}
	}
	clear(t.moved)
}

func (t *Table) resolve(prefixes map[netip.Prefix]struct{}) []source.Route {
	result := make([]source.Route, 0, len(prefixes))
	// Routes of a batch have few different ways; each list is shared.
	type answer struct {
		ways             []source.NextHop
		named, oversized bool
	}
	answerOf := func(hops []Hop) answer {
		if len(hops) > MaxHops {
			return answer{named: true, oversized: true}
		}
		ways, named := t.ways(hops)
		return answer{ways: ways, named: named}
	}
	byGroup, byHops := map[uint32]answer{}, map[paths]answer{}
	for prefix := range prefixes {
		_, wasOversized := t.oversized[prefix]
		delete(t.waiting, prefix)
		delete(t.oversized, prefix)
		first, ok := t.routes[prefix]
		if !ok {
			delete(prefixes, prefix)
			result = append(result, source.Route{Prefix: prefix})
			continue
		}
		var a answer
		if first.group == 0 {
			if a, ok = byHops[first.hops]; !ok {
				a = answerOf(first.hops.slice())
				byHops[first.hops] = a
			}
		} else if a, ok = byGroup[first.group]; !ok {
			hops, _ := t.expand(nil, first.group, 1, maxDepth)
			a = answerOf(hops)
			byGroup[first.group] = a
		}
		if a.named {
			delete(prefixes, prefix)
		}
		if a.oversized {
			t.oversized[prefix] = struct{}{}
			if !wasOversized {
				t.outgrown = append(t.outgrown, prefix)
			}
			result = append(result, source.Route{Prefix: prefix})
			continue
		}
		if len(a.ways) == 0 {
			t.waiting[prefix] = struct{}{}
			result = append(result, source.Route{Prefix: prefix, Keep: true})
			continue
		}
		result = append(result, source.Route{Prefix: prefix, Paths: a.ways})
	}
	return result
}

// expand adds the paths of an object to `hops`, until there are more than MaxHops; false
// if one of them is not known.
func (t *Table) expand(hops []Hop, id, weight uint32, depth int) ([]Hop, bool) {
	if len(hops) > MaxHops {
		return hops, true
	}
	object := t.objects[id]
	if object == nil || depth == 0 {
		return nil, false
	}
	if object.Group == nil {
		hop := object.Hop
		hop.Weight = weight
		return append(hops, hop), true
	}
	for _, member := range object.Group {
		var ok bool
		if hops, ok = t.expand(hops, member.ID, uint32(min(uint64(weight)*uint64(member.Weight), maxShare)), depth-1); !ok {
			return nil, false
		}
	}
	return hops, true
}

// ways says hops as the sink takes them; equal ones become one with their weights. named
// is false if an interface has no name.
func (t *Table) ways(hops []Hop) (result []source.NextHop, named bool) {
	named = true
	for _, hop := range hops {
		way := source.NextHop{Gateway: hop.Gateway}
		switch {
		case hop.Blackhole:
			way.Label = "blackhole"
		case hop.Link != 0:
			if way.Interface = t.link(hop.Link); way.Interface == "" {
				way.Interface, named = fmt.Sprintf("if%d", hop.Link), false
			}
		}
		at := slices.IndexFunc(result, func(other source.NextHop) bool {
			other.Weight = 0
			return other == way
		})
		if at < 0 {
			result, at = append(result, way), len(result)
		}
		result[at].Weight += hop.Weight
	}
	return result, named
}
