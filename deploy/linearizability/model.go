// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"planb.dev/lookup/client/go/planbv1"
)

// kind says what a call does.
type kind uint8

const (
	update  kind = iota // UpdateRoutes
	replace             // ReplaceRoutes
	lookup              // Lookup of one address in each prefix of Keys
	end                 // of the history: what has not happened by then never does
)

var kindNames = []string{"update", "replace", "lookup", "end"}

// change is one change of one route. Keys are numbers of prefixes.
type change struct {
	Op      planbv1.RouteUpdate_Op
	Key     int
	NextHop uint32
}

// input is what a call asks for.
type input struct {
	Kind         kind
	Changes      []change // of a replacement: its routes, as OP_UPSERT
	Expected     *uint64  `json:",omitempty"` // expected_generation
	Epoch        uint64   `json:",omitempty"` // writer_epoch
	ID           string   `json:",omitempty"` // request_id
	ValidateOnly bool     `json:",omitempty"`
	Keys         []int    `json:",omitempty"` // of a lookup
	// Of a lookup: the oldest generation that it may be answered from.
	Floor uint64 `json:",omitempty"`
	// The call is one of several with its ID.
	repeated bool
	// Of calls of a class, numbered, this one's turn comes when `rank` others have
	// had theirs. A class is calls of unknown outcome that are alike, or lookups:
	// of a table, or where keys are apart of a key.
	class, rank int
}

// outcome says how a call ended.
type outcome uint8

const (
	done    outcome = iota
	refused         // for a reason that the table gives
	unknown         // it may have happened, or happen later
)

// counts are those of a reply.
type counts struct {
	Added, Changed, Removed, Unchanged uint64 `json:",omitempty"`
}

func (c counts) any() bool { return c.Added+c.Changed+c.Removed > 0 }

// output is what a call was told.
type output struct {
	Outcome    outcome
	Reason     string   `json:",omitempty"` // of a refusal
	Generation uint64   `json:",omitempty"`
	Counts     counts   `json:",omitzero"`
	NextHops   []uint32 `json:",omitempty"` // of a lookup, one for each of Keys
}

// world is the keys of a table: their prefixes, and the addresses that are
// looked up.
type world struct {
	Prefixes []string
	Probes   []string // within the prefix, and in no longer one
	// The longest shorter prefix around each one; -1: none.
	Parents []int
	// No call is about several keys, or about the table as a whole: the history
	// of each key is one of its own.
	Apart bool
}

// answered is a list of the requests with an ID that have happened.
type answered struct {
	id         string
	generation uint64
	counts     counts
	next       *answered
}

// state is the table. Apart, it is one key of it. Constant.
type state struct {
	routes     []uint32 // the next hop of each key; 0: no route
	generation uint64   // apart: at least that of the last change
	seen       uint64   // apart: the newest generation at which it was as it is
	epoch      uint64
	answered   *answered // those that are repeated
	digest     uint64    // of what `answered` has
	ended      bool
	// These follow from which calls have happened.
	named   int   // those that were told the generation and changed nothing
	looked  int   // lookups
	unknown []int // for each class, those of unknown outcome
}

func (s *state) equal(o *state) bool {
	return s.generation == o.generation && s.seen == o.seen && s.epoch == o.epoch &&
		s.digest == o.digest && s.ended == o.ended && slices.Equal(s.routes, o.routes)
}

func (s *state) hash() uint64 {
	h := s.digest ^ s.generation*0x9e3779b97f4a7c15 ^ s.epoch*0xc2b2ae3d27d4eb4f ^ s.seen<<17
	for _, nextHop := range s.routes {
		h = (h ^ uint64(nextHop)) * 0x100000001b3
	}
	return h
}

func (s *state) String() string {
	return fmt.Sprintf("generation %d, epoch %d, routes %v", s.generation, s.epoch, s.routes)
}

func (s *state) find(id string) *answered {
	for a := s.answered; a != nil; a = a.next {
		if a.id == id {
			return a
		}
	}
	return nil
}

// model is a table as the contract promises it to all its writers together. For
// one history. Where keys are apart, it is one key of the table.
type model struct {
	world world
	start state
	// What follows spares the checker orders that are as good as others, or come to
	// nothing: it decides the same without.

	// The call that was told to have made a generation: its ID, or a name for it.
	makers map[uint64]string
	// How many calls were told a generation and changed nothing. None of them can
	// have its turn after the generation.
	named map[uint64]int
	// The number of classes of calls of unknown outcome.
	classes int
}

func (m *model) index(key int) int {
	if m.world.Apart {
		return 0
	}
	return key
}

// effect is what a table without other writers does with a call.
type effect struct {
	reasons []string // to refuse it
	counts  counts
	after   []uint32
}

func (m *model) apply(s *state, in *input) effect {
	var e effect
	if in.Epoch < s.epoch {
		e.reasons = append(e.reasons, "WRITER_FENCED")
	}
	if in.Expected != nil && *in.Expected != s.generation {
		e.reasons = append(e.reasons, "GENERATION_MISMATCH")
	}
	e.after = slices.Clone(s.routes)
	count := func(before, after uint32) {
		switch {
		case before == after:
			e.counts.Unchanged++
		case before == 0:
			e.counts.Added++
		case after == 0:
			e.counts.Removed++
		default:
			e.counts.Changed++
		}
	}
	if in.Kind == replace {
		clear(e.after)
		for _, c := range in.Changes {
			e.after[m.index(c.Key)] = c.NextHop
		}
		for i := range e.after {
			if s.routes[i] != 0 || e.after[i] != 0 {
				count(s.routes[i], e.after[i])
			}
		}
		return e
	}
	for _, c := range in.Changes {
		i := m.index(c.Key)
		before, after := s.routes[i], c.NextHop
		switch c.Op {
		case planbv1.RouteUpdate_OP_INSERT:
			if before != 0 {
				e.reasons = append(e.reasons, "ROUTE_EXISTS")
			}
		case planbv1.RouteUpdate_OP_REPLACE, planbv1.RouteUpdate_OP_DELETE_STRICT:
			if before == 0 {
				e.reasons = append(e.reasons, "ROUTE_NOT_FOUND")
			}
		}
		count(before, after)
		e.after[i] = after
	}
	return e
}

// step says whether a call can have been told `out` at its turn, and what it
// leaves.
func (m *model) step(s *state, in *input, out *output) (bool, *state) {
	switch {
	case in.Kind == end:
		next := *s
		next.ended = true
		return true, &next
	case out.Outcome == unknown && s.ended:
		return true, s // it has not happened
	case in.Kind == lookup:
		return m.look(s, in, out)
	}
	if in.repeated {
		if a := s.find(in.ID); a != nil {
			// What is unknown has happened elsewhere, or never.
			known := a.generation == math.MaxUint64 || a.generation == out.Generation
			return out.Outcome == done && known && a.counts == out.Counts, s
		}
	}
	e := m.apply(s, in)
	if out.Outcome == refused {
		return slices.Contains(e.reasons, out.Reason), s
	}
	if len(e.reasons) > 0 {
		return false, nil
	}
	next := *s
	next.routes = e.after
	generation := out.Generation
	changes := e.counts.any() && !in.ValidateOnly
	switch {
	case out.Outcome == unknown:
		if !m.turn(s, in, e.counts.any()) {
			return false, nil
		}
		generation = s.generation
		if changes {
			generation = max(s.generation, s.seen) + 1
		}
		next.unknown = slices.Clone(s.unknown)
		next.unknown[in.class]++
	case out.Counts != e.counts:
		return false, nil
	case m.world.Apart && changes:
		if generation <= s.generation || generation <= s.seen {
			return false, nil
		}
	case m.world.Apart:
		if generation < s.generation {
			return false, nil
		}
	case changes:
		if generation != s.generation+1 {
			return false, nil
		}
	default:
		if generation != s.generation {
			return false, nil
		}
		if !in.repeated {
			next.named++
		}
	}
	if changes && !m.world.Apart {
		if s.named != m.named[s.generation] {
			return false, nil
		}
		next.named = 0
	}
	if in.ValidateOnly {
		next.routes = s.routes
		return true, &next
	}
	if changes || !m.world.Apart {
		next.generation = generation
	}
	if m.world.Apart {
		next.seen = max(s.seen, generation)
	}
	next.epoch = max(s.epoch, in.Epoch)
	if in.repeated {
		if m.world.Apart && out.Outcome == unknown {
			generation = math.MaxUint64 // any
		}
		next.answered = &answered{in.ID, generation, e.counts, s.answered}
		h := fnv.New64a()
		fmt.Fprint(h, in.ID, generation, e.counts)
		next.digest ^= h.Sum64()
	}
	return true, &next
}

// turn says whether a call of unknown outcome may happen now. One without an
// effect is left for after the end, as if it had not happened.
func (m *model) turn(s *state, in *input, changes bool) bool {
	if in.rank != s.unknown[in.class] {
		return false
	}
	if !changes {
		return in.Epoch > s.epoch || in.repeated
	}
	maker, known := m.makers[s.generation+1]
	return !known || m.world.Apart || maker == in.ID
}

// look is the step of a lookup: at the generation that it names.
func (m *model) look(s *state, in *input, out *output) (bool, *state) {
	if out.Generation < in.Floor || in.rank != s.looked {
		return false, nil
	}
	for i, key := range in.Keys {
		nextHop := s.routes[m.index(key)]
		for p := m.world.Parents[key]; nextHop == 0 && p >= 0; p = m.world.Parents[p] {
			nextHop = s.routes[m.index(p)]
		}
		if nextHop != out.NextHops[i] {
			return false, nil
		}
	}
	next := *s
	next.looked++
	if !m.world.Apart {
		next.named++
		return out.Generation == s.generation, &next
	}
	if out.Generation < s.generation {
		return false, nil
	}
	next.seen = max(s.seen, out.Generation)
	return true, &next
}

func (in *input) String() string {
	var b strings.Builder
	b.WriteString(kindNames[in.Kind])
	for _, c := range in.Changes {
		op := strings.ToLower(strings.TrimPrefix(c.Op.String(), "OP_"))
		fmt.Fprintf(&b, " %s(%d=%d)", op, c.Key, c.NextHop)
	}
	if in.Kind == lookup {
		fmt.Fprintf(&b, " %v from generation %d", in.Keys, in.Floor)
	}
	if in.Expected != nil {
		fmt.Fprintf(&b, " expects %d", *in.Expected)
	}
	if in.Epoch > 0 {
		fmt.Fprintf(&b, " epoch %d", in.Epoch)
	}
	if in.ID != "" {
		fmt.Fprintf(&b, " id %s", in.ID)
	}
	if in.ValidateOnly {
		b.WriteString(" validate_only")
	}
	return b.String()
}

func (in *input) describe(out *output) string {
	switch {
	case in.Kind == end:
		return "end"
	case out.Outcome == unknown:
		return fmt.Sprintf("%v -> unknown", in)
	case out.Outcome == refused:
		return fmt.Sprintf("%v -> %s", in, out.Reason)
	case in.Kind == lookup:
		return fmt.Sprintf("%v -> %v, generation %d", in, out.NextHops, out.Generation)
	}
	return fmt.Sprintf("%v -> generation %d, +%d ~%d -%d =%d", in, out.Generation,
		out.Counts.Added, out.Counts.Changed, out.Counts.Removed, out.Counts.Unchanged)
}

// porcupine is the model as the checker takes it.
func (m *model) porcupine() porcupine.Model {
	p := porcupine.Model{
		Init: func() any { start := m.start; return &start },
		Step: func(s, in, out any) (bool, any) {
			ok, next := m.step(s.(*state), in.(*input), out.(*output))
			return ok, next
		},
		Equal: func(a, b any) bool { return a.(*state).equal(b.(*state)) },
		Hash:  func(s any) uint64 { return s.(*state).hash() },
		DescribeOperation: func(in, out any) string {
			return in.(*input).describe(out.(*output))
		},
		DescribeState: func(s any) string { return s.(*state).String() },
	}
	if m.world.Apart {
		p.Partition = byKey
	}
	return p
}

// byKey gives each key the history of its own, and each its end.
func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	keys := map[int][]porcupine.Operation{}
	var ends []porcupine.Operation
	for _, operation := range history {
		switch in := operation.Input.(*input); in.Kind {
		case end:
			ends = append(ends, operation)
		case lookup:
			keys[in.Keys[0]] = append(keys[in.Keys[0]], operation)
		default:
			keys[in.Changes[0].Key] = append(keys[in.Changes[0].Key], operation)
		}
	}
	var apart [][]porcupine.Operation
	for _, operations := range keys {
		apart = append(apart, append(operations, ends...))
	}
	return apart
}
