// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"planb.dev/lookup/client/go/planbv1"
)

const (
	upsert  = planbv1.RouteUpdate_OP_UPSERT
	insert  = planbv1.RouteUpdate_OP_INSERT
	rewrite = planbv1.RouteUpdate_OP_REPLACE
	remove  = planbv1.RouteUpdate_OP_DELETE
	strict  = planbv1.RouteUpdate_OP_DELETE_STRICT
)

// Records are one after the other, 10 apart, unless a test moves them.
type script struct{ h history }

func newScript(apart bool) *script {
	return &script{history{Table: "t", Routes: make([]uint32, 2), World: world{Parents: []int{-1, -1}, Apart: apart}}}
}

func (s *script) add(server int, in input, out output) *record {
	at := int64(10*len(s.h.Records) + 1)
	s.h.Records = append(s.h.Records, record{Client: server, Server: server, Call: at, Return: at + 5, In: in, Out: out})
	return &s.h.Records[len(s.h.Records)-1]
}

func one(op planbv1.RouteUpdate_Op, key int, nextHop uint32) input {
	return input{Changes: []change{{op, key, nextHop}}}
}

func added(generation uint64) output {
	return output{Generation: generation, Counts: counts{Added: 1}}
}
func changed(generation uint64) output {
	return output{Generation: generation, Counts: counts{Changed: 1}}
}
func removed(generation uint64) output {
	return output{Generation: generation, Counts: counts{Removed: 1}}
}
func unchanged(generation uint64) output {
	return output{Generation: generation, Counts: counts{Unchanged: 1}}
}
func no(reason string) output { return output{Outcome: refused, Reason: reason} }
func lost() output            { return output{Outcome: unknown} }

func (s *script) look(server int, minimum uint64, key int, generation uint64, nextHop uint32) *record {
	r := s.add(server, input{Kind: lookup, Keys: []int{key}}, output{Generation: generation, NextHops: []uint32{nextHop}})
	r.MinGeneration = minimum
	return r
}

func (s *script) verdict(t *testing.T) bool {
	t.Helper()
	result, text, err := s.h.check(t.TempDir(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if testing.Verbose() && text != "" {
		t.Log(text)
	}
	if result == porcupine.Unknown {
		t.Fatal("the checker cannot tell")
	}
	return result == porcupine.Ok
}

// Two servers, 0 and 1. Each history is good as it is, and bad once `spoil` has
// changed it.
func TestSpoiltHistories(t *testing.T) {
	epoch := func(in input, epoch uint64) input { in.Epoch = epoch; return in }
	expects := func(in input, generation uint64) input { in.Expected = &generation; return in }
	named := func(in input, id string) input { in.ID = id; return in }
	validated := func(in input) input { in.ValidateOnly = true; return in }
	acked := func(r *record, ack planbv1.Ack) { r.Ack, r.Visible = ack, r.Out.Generation }
	tests := []struct {
		name  string
		whole bool // only where the table is checked as a whole
		good  func(s *script)
		spoil func(h *history)
	}{
		{"a withdrawal is lost", false, func(s *script) {
			s.add(0, one(upsert, 0, 7), added(1))
			s.add(1, one(remove, 0, 0), removed(2))
		}, func(h *history) { h.Records[1].Out = unchanged(0) }},
		{"a withdrawal is lost, by what a lookup sees", false, func(s *script) {
			s.add(0, one(upsert, 0, 7), added(1))
			s.add(1, one(remove, 0, 0), removed(2))
			s.look(0, 2, 0, 2, 0)
		}, func(h *history) { h.Records[2].Out.NextHops[0] = 7 }},
		{"an announcement is lost", false, func(s *script) {
			s.add(0, one(upsert, 0, 7), added(1))
			s.add(1, one(upsert, 0, 8), changed(2))
			s.add(0, one(remove, 0, 0), removed(3))
			s.add(1, one(upsert, 0, 8), added(4))
		}, func(h *history) { h.Records[3].Out = unchanged(2) }},
		{"an acknowledged batch is gone", false, func(s *script) {
			s.add(0, one(upsert, 0, 7), added(1))
			s.add(1, one(insert, 0, 8), no("ROUTE_EXISTS"))
		}, func(h *history) { h.Records[1].Out = added(1) }},
		{"a repeated request is applied twice", false, func(s *script) {
			s.add(0, named(one(upsert, 0, 7), "r"), added(1))
			s.add(0, one(upsert, 0, 8), changed(2))
			s.add(1, named(one(upsert, 0, 7), "r"), added(1))
			s.look(1, 2, 0, 2, 8)
		}, func(h *history) {
			h.Records[2].Out = changed(3)
			h.Records[3].Out = output{Generation: 3, NextHops: []uint32{7}}
		}},
		{"a repeated request of unknown outcome is applied twice", false, func(s *script) {
			s.add(0, named(one(upsert, 0, 7), "r"), lost())
			s.add(0, one(upsert, 0, 8), changed(2))
			s.add(1, named(one(upsert, 0, 7), "r"), added(1))
		}, func(h *history) { h.Records[2].Out = changed(3) }},
		{"a repeated request has another answer", false, func(s *script) {
			s.add(0, named(one(upsert, 0, 7), "r"), added(1))
			s.add(1, named(one(upsert, 0, 7), "r"), added(1))
		}, func(h *history) { h.Records[1].Out = unchanged(1) }},
		{"a repeated request is refused", false, func(s *script) {
			s.add(0, named(one(insert, 0, 7), "r"), added(1))
			s.add(1, named(one(insert, 0, 7), "r"), added(1))
		}, func(h *history) { h.Records[1].Out = no("ROUTE_EXISTS") }},
		{"an insertion is refused for what was withdrawn", false, func(s *script) {
			s.add(0, one(upsert, 0, 7), added(1))
			s.add(0, one(remove, 0, 0), removed(2))
			s.add(1, one(insert, 0, 8), added(3))
		}, func(h *history) { h.Records[2].Out = no("ROUTE_EXISTS") }},
		{"a strict withdrawal is refused for what is there", false, func(s *script) {
			s.add(0, one(upsert, 0, 7), added(1))
			s.add(1, one(strict, 0, 0), removed(2))
		}, func(h *history) { h.Records[1].Out = no("ROUTE_NOT_FOUND") }},
		{"a change is refused for what is there", false, func(s *script) {
			s.add(0, one(upsert, 0, 7), added(1))
			s.add(1, one(rewrite, 0, 8), changed(2))
		}, func(h *history) { h.Records[1].Out = no("ROUTE_NOT_FOUND") }},
		{"a replacement equals what was there before", true, func(s *script) {
			s.add(0, one(upsert, 0, 7), added(1))
			s.add(0, one(upsert, 1, 9), added(2))
			s.add(1, input{Kind: replace, Changes: []change{{upsert, 0, 7}}},
				output{Generation: 3, Counts: counts{Removed: 1, Unchanged: 1}})
		}, func(h *history) { h.Records[2].Out = unchanged(1) }},
		{"an old expectation is met", true, func(s *script) {
			s.add(0, one(upsert, 0, 7), added(1))
			s.add(1, expects(one(remove, 1, 0), 0), no("GENERATION_MISMATCH"))
		}, func(h *history) { h.Records[1].Out = unchanged(0) }},
		{"a right expectation is refused", true, func(s *script) {
			s.add(0, one(upsert, 0, 7), added(1))
			s.add(1, expects(one(upsert, 0, 8), 1), changed(2))
		}, func(h *history) { h.Records[1].Out = no("GENERATION_MISMATCH") }},
		{"an old epoch is accepted", true, func(s *script) {
			s.add(0, epoch(one(upsert, 0, 7), 5), added(1))
			s.add(1, one(upsert, 0, 7), no("WRITER_FENCED"))
		}, func(h *history) { h.Records[1].Out = unchanged(1) }},
		{"an old epoch changes the table", true, func(s *script) {
			s.add(0, epoch(one(remove, 0, 0), 5), unchanged(0))
			s.add(1, one(upsert, 0, 7), no("WRITER_FENCED"))
		}, func(h *history) { h.Records[1].Out = added(1) }},
		{"a writer is fenced by none", true, func(s *script) {
			s.add(0, epoch(one(upsert, 0, 7), 5), added(1))
			s.add(1, epoch(one(upsert, 0, 8), 5), changed(2))
		}, func(h *history) { h.Records[1].Out = no("WRITER_FENCED") }},
		{"a validation of an old table", true, func(s *script) {
			s.add(0, one(upsert, 0, 7), added(1))
			s.add(1, validated(one(upsert, 0, 8)), changed(1))
		}, func(h *history) { h.Records[1].Out = added(0) }},
		{"two batches make one generation", false, func(s *script) {
			s.add(0, one(upsert, 0, 7), added(1))
			s.add(1, one(upsert, 0, 8), changed(2))
		}, func(h *history) { h.Records[1].Out = changed(1) }},
		{"a lookup misses its min_generation", false, func(s *script) {
			s.add(0, one(upsert, 0, 7), added(1))
			s.look(1, 1, 0, 1, 7)
		}, func(h *history) { h.Records[1].Out = output{NextHops: []uint32{0}} }},
		{"a lookup names its min_generation and shows an older one", false, func(s *script) {
			s.add(0, one(upsert, 0, 7), added(1))
			s.add(0, one(upsert, 0, 8), changed(2))
			s.look(1, 2, 0, 2, 8)
		}, func(h *history) { h.Records[2].Out.NextHops[0] = 7 }},
		{"a lookup after ACK_REPLICATED is old", false, func(s *script) {
			acked(s.add(0, one(upsert, 0, 7), added(1)), planbv1.Ack_ACK_REPLICATED)
			s.look(1, 0, 0, 1, 7)
		}, func(h *history) { h.Records[1].Out = output{NextHops: []uint32{0}} }},
		{"a lookup after ACK_VISIBLE is old", false, func(s *script) {
			acked(s.add(1, one(upsert, 0, 7), added(1)), planbv1.Ack_ACK_VISIBLE)
			s.look(1, 0, 0, 1, 7)
		}, func(h *history) { h.Records[1].Out = output{NextHops: []uint32{0}} }},
		{"a server goes back", false, func(s *script) {
			s.add(0, one(upsert, 0, 7), added(1))
			s.look(1, 0, 0, 1, 7)
			s.look(1, 0, 0, 1, 7)
		}, func(h *history) { h.Records[2].Out = output{NextHops: []uint32{0}} }},
		{"a server begins without what was acknowledged", false, func(s *script) {
			s.add(0, one(upsert, 0, 7), added(1))
			s.look(1, 0, 0, 1, 7)
			s.h.Starts = []span{{Server: 1, Begin: 8}}
		}, func(h *history) { h.Records[1].Out = output{NextHops: []uint32{0}} }},
		{"a lookup sees what nothing has written", false, func(s *script) {
			s.add(0, one(upsert, 0, 7), lost())
			s.look(1, 0, 0, 1, 7)
		}, func(h *history) { h.Records[1].Out.NextHops[0] = 9 }},
		{"a lookup sees what is not yet sent", false, func(s *script) {
			s.add(0, one(upsert, 0, 7), added(1))
			s.look(1, 0, 0, 1, 7)
		}, func(h *history) { h.Records[0].Call, h.Records[0].Return = 30, 35 }},
		{"what is unknown happens twice", false, func(s *script) {
			s.add(0, one(upsert, 0, 7), lost())
			s.add(1, one(remove, 0, 0), removed(2))
			s.look(1, 0, 0, 2, 0)
			s.add(1, one(remove, 0, 0), unchanged(2))
		}, func(h *history) { h.Records[3].Out = removed(4) }},
		{"what is unknown happens before it was sent", false, func(s *script) {
			s.add(0, one(upsert, 0, 7), lost())
			s.add(1, one(remove, 0, 0), removed(2))
		}, func(h *history) { h.Records[0].Call = 30 }},
	}
	for _, test := range tests {
		for _, apart := range []bool{false, true} {
			if apart && test.whole {
				continue
			}
			name := test.name
			if apart {
				name += ", by key"
			}
			t.Run(name, func(t *testing.T) {
				s := newScript(apart)
				test.good(s)
				if !s.verdict(t) {
					t.Fatal("the good history is refused")
				}
				test.spoil(&s.h)
				if s.verdict(t) {
					t.Fatal("the spoilt history is accepted")
				}
			})
		}
	}
}

// What the contract allows is accepted.
func TestGoodHistories(t *testing.T) {
	for _, apart := range []bool{false, true} {
		// A server that is behind answers lookups without conditions.
		s := newScript(apart)
		s.add(0, one(upsert, 0, 7), added(1))
		s.add(0, one(upsert, 0, 8), changed(2))
		s.look(1, 1, 0, 1, 7)
		s.look(1, 0, 0, 2, 8)
		if !s.verdict(t) {
			t.Error("a lookup may be behind")
		}
		// What is unknown may happen late, or never.
		s = newScript(apart)
		s.add(0, one(upsert, 0, 7), lost())
		s.add(0, one(upsert, 0, 8), added(1))
		s.add(0, one(remove, 0, 0), lost())
		s.look(1, 0, 0, 2, 7)
		if !s.verdict(t) {
			t.Error("what is unknown may happen late")
		}
		// A server that the store may have forgotten is not one of all.
		s = newScript(apart)
		s.add(0, one(upsert, 0, 7), added(1)).Ack = planbv1.Ack_ACK_REPLICATED
		s.look(1, 0, 0, 0, 0)
		for i := range s.h.Records {
			s.h.Records[i].Call += (20 * time.Second).Nanoseconds()
			s.h.Records[i].Return += (20 * time.Second).Nanoseconds()
		}
		s.h.Faults = []span{{1, 0, (20 * time.Second).Nanoseconds()}}
		if !s.verdict(t) {
			t.Error("a server without a lease may be behind")
		}
	}
	// A longer prefix wins, and its withdrawal shows the shorter one.
	s := newScript(false)
	s.h.World.Parents[1] = 0
	s.add(0, one(upsert, 0, 7), added(1))
	s.look(0, 1, 1, 1, 7)
	s.add(0, one(upsert, 1, 9), added(2))
	s.look(0, 2, 1, 2, 9)
	s.add(0, one(remove, 1, 0), removed(3))
	s.look(0, 3, 1, 3, 7)
	if !s.verdict(t) {
		t.Error("the longest prefix wins")
	}
}

// A history of real servers, with one answer spoilt at a time. "Recorded" is what
// a run leaves with --keep.
func TestSpoiltRecording(t *testing.T) {
	const recording = "testdata/recorded.json"
	load := func() *history {
		h, err := read(recording)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	verdict := func(h *history) bool {
		result, _, err := h.check(t.TempDir(), time.Minute)
		if err != nil || result == porcupine.Unknown {
			t.Fatal(result, err)
		}
		return result == porcupine.Ok
	}
	if !verdict(load()) {
		t.Fatal("the recording is refused")
	}
	attempts := map[string]int{}
	for _, r := range load().Records {
		attempts[r.In.ID]++
	}
	single := func(r *record) bool { return r.In.ID == "" || attempts[r.In.ID] == 1 }
	made := func(r *record) bool {
		return r.In.Kind != lookup && r.Out.Outcome == done && !r.In.ValidateOnly && r.Out.Counts.any() && single(r)
	}
	spoils := []struct {
		name  string
		fits  func(r *record) bool
		spoil func(r *record)
	}{
		{"a withdrawal is lost", func(r *record) bool {
			return made(r) && len(r.In.Changes) == 1 && r.Out.Counts.Removed == 1 && r.In.Kind == update
		}, func(r *record) { r.Out.Counts, r.Out.Generation = counts{Unchanged: 1}, r.Out.Generation-1 }},
		{"a change is refused", made, func(r *record) { r.Out = no("ROUTE_EXISTS") }},
		{"an old epoch is accepted", func(r *record) bool { return r.Out.Reason == "WRITER_FENCED" }, func(r *record) {
			r.Out = output{Generation: 1, Counts: counts{Unchanged: uint64(len(r.In.Changes))}}
		}},
		{"a repetition has another answer", func(r *record) bool {
			return r.In.Kind != lookup && r.Out.Outcome == done && attempts[r.In.ID] > 1 && r.In.ID != ""
		}, func(r *record) { r.Out.Generation++ }},
		{"a lookup sees another route", func(r *record) bool { return r.In.Kind == lookup }, func(r *record) {
			r.Out.NextHops[0] += 7
		}},
		{"a lookup is old", func(r *record) bool {
			return r.In.Kind == lookup && r.MinGeneration > 140
		}, func(r *record) { r.Out.Generation = r.MinGeneration - 1 }},
		{"a change is not sent until a second later", made, func(r *record) {
			r.Call += time.Second.Nanoseconds()
			r.Return += time.Second.Nanoseconds()
		}},
	}
	for _, s := range spoils {
		t.Run(s.name, func(t *testing.T) {
			spoilt := 0
			for i := range load().Records {
				h := load()
				if r := &h.Records[i]; s.fits(r) {
					s.spoil(r)
					spoilt++
					if verdict(h) {
						t.Errorf("accepted: call %d, %s", i, r.In.describe(&r.Out))
					}
				}
				if spoilt == 12 {
					break
				}
			}
			if spoilt == 0 {
				t.Error("no call to spoil")
			}
		})
	}
}
