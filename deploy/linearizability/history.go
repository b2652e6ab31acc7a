// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"planb.dev/lookup/client/go/planbv1"
)

// record is one call of a client and its answer. What certainly had no effect and
// says nothing of the table is not recorded.
type record struct {
	Client, Server int
	Call, Return   int64 // nanoseconds of the monotonic clock since the start
	In             input
	Out            output
	Ack            planbv1.Ack `json:",omitempty"`
	// The reply's visible_generation.
	Visible uint64 `json:",omitempty"`
	// Of a lookup: its min_generation.
	MinGeneration uint64 `json:",omitempty"`
}

// span is a time in which a server could not reach the others.
type span struct {
	Server     int
	Begin, End int64
}

// history is all calls to one table.
type history struct {
	Table string
	World world
	// The contents, next hops by key, the generation and the epoch that it began
	// with.
	Routes     []uint32
	Generation uint64
	Epoch      uint64
	Records    []record
	// When processes of servers were started, as spans without an end.
	Starts []span
	Faults []span
}

// A server that the store has not heard of for the 10 s of its lease is no longer
// there for ACK_REPLICATED. One that was away for longer than this within twice
// the lease may have been such a one.
const (
	lease   = 10 * time.Second
	mayMiss = 6 * time.Second
)

// away says whether the store may have forgotten the server at that time.
func (h *history) away(server int, at int64) bool {
	from := at - 2*lease.Nanoseconds()
	var sum int64
	for _, f := range h.Faults {
		if f.Server == server {
			sum += max(0, min(f.End, at)-max(f.Begin, from))
		}
	}
	return sum > mayMiss.Nanoseconds()
}

// setFloors says of each lookup how old its answer may be. Lookups are no
// linearizable reads: a server may be behind the others. Promised is that a
// lookup sees
//   - its min_generation;
//   - what its server has acked as visible, or has shown, before it was sent;
//   - what any server has acked as ACK_REPLICATED (all) before;
//   - if its server has begun since, all that was acked before.
func (h *history) setFloors() {
	type event struct {
		at     int64
		order  int // calls come before returns of the same time
		happen func()
	}
	var events []event
	newest, replicated := uint64(0), map[int]uint64{}
	visible := map[int]uint64{}
	servers := map[int]bool{}
	for i := range h.Records {
		servers[h.Records[i].Server] = true
	}
	for i := range h.Records {
		r := &h.Records[i]
		if r.In.Kind == lookup {
			events = append(events, event{r.Call, 0, func() {
				r.In.Floor = max(r.MinGeneration, visible[r.Server], replicated[r.Server], h.Generation)
			}})
		}
		if r.Out.Outcome != done {
			continue
		}
		events = append(events, event{r.Return, 1, func() {
			shown := r.Visible
			if r.In.Kind == lookup || r.Ack == planbv1.Ack_ACK_VISIBLE || r.Ack == planbv1.Ack_ACK_REPLICATED {
				shown = max(shown, r.Out.Generation)
			}
			visible[r.Server] = max(visible[r.Server], shown)
			newest = max(newest, r.Out.Generation, r.Visible)
			if r.Ack != planbv1.Ack_ACK_REPLICATED {
				return
			}
			for server := range servers {
				if !h.away(server, r.Return) {
					replicated[server] = max(replicated[server], r.Out.Generation)
				}
			}
		}})
	}
	for _, start := range h.Starts {
		events = append(events, event{start.Begin, 0, func() {
			visible[start.Server] = max(visible[start.Server], newest)
		}})
	}
	slices.SortStableFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order))
	})
	for _, e := range events {
		e.happen()
	}
}

// calls prepares what the checker takes: the model of this history, and its
// operations.
func (h *history) calls() (*model, []porcupine.Operation) {
	h.setFloors()
	m := &model{world: h.World, makers: map[uint64]string{}, named: map[uint64]int{}}
	m.start = state{routes: h.Routes, generation: h.Generation, seen: h.Generation, epoch: h.Epoch}
	attempts := map[string]int{}
	first := map[string]int64{} // call of each ID
	last := int64(0)
	for i := range h.Records {
		r := &h.Records[i]
		last = max(last, r.Call, r.Return)
		if r.In.ID != "" && r.In.Kind != lookup {
			attempts[r.In.ID]++
			if at, known := first[r.In.ID]; !known || r.Call < at {
				first[r.In.ID] = r.Call
			}
		}
	}
	// The generations of which a maker is known, and when the maker was called:
	// the table had that generation at some time after.
	type made struct {
		generation uint64
		call       int64
	}
	var since []made
	for i := range h.Records {
		r := &h.Records[i]
		r.In.repeated = attempts[r.In.ID] > 1
		if r.Out.Outcome != done {
			continue
		}
		if r.In.Kind == lookup || r.In.ValidateOnly || !r.Out.Counts.any() {
			if !r.In.repeated {
				m.named[r.Out.Generation]++
			}
			continue
		}
		name, call := r.In.ID, r.Call
		if name == "" {
			name = fmt.Sprint("call ", i)
		} else {
			call = first[name]
		}
		m.makers[r.Out.Generation] = name
		since = append(since, made{r.Out.Generation, call})
	}
	slices.SortFunc(since, func(a, b made) int { return cmp.Compare(a.generation, b.generation) })
	classes := map[string][]*record{}
	lookups := map[int][]*porcupine.Operation{}
	operations := make([]porcupine.Operation, 0, len(h.Records)+1)
	for i := range h.Records {
		r := &h.Records[i]
		operation := porcupine.Operation{ClientId: r.Client, Input: &r.In, Call: r.Call, Output: &r.Out, Return: r.Return}
		switch {
		case r.In.Kind == lookup:
			// Its turn may come before it was sent, if that generation is new
			// enough.
			operation.Call = -1
			n, _ := slices.BinarySearchFunc(since, r.In.Floor, func(s made, floor uint64) int {
				if s.generation <= floor {
					return -1
				}
				return 1
			})
			if n > 0 {
				operation.Call = min(r.Call, since[n-1].call)
			}
		case r.Out.Outcome == unknown && r.In.ValidateOnly:
			continue
		case r.Out.Outcome == unknown:
			operation.Return = math.MaxInt64 // it never returns
			alike := r.In
			if !alike.repeated {
				alike.ID = ""
			}
			classes[alike.String()] = append(classes[alike.String()], r)
		}
		operations = append(operations, operation)
		if r.In.Kind == lookup {
			key := 0
			if h.World.Apart {
				key = r.In.Keys[0]
			}
			lookups[key] = append(lookups[key], &operations[len(operations)-1])
		}
	}
	// Lookups have their turns in the order of their generations; of one
	// generation, any order will do that agrees with the times of the calls.
	for _, all := range lookups {
		slices.SortStableFunc(all, func(a, b *porcupine.Operation) int {
			return cmp.Or(cmp.Compare(a.Output.(*output).Generation, b.Output.(*output).Generation), cmp.Compare(a.Call, b.Call))
		})
		for rank, operation := range all {
			operation.Input.(*input).rank = rank
		}
	}
	for _, alike := range classes {
		slices.SortFunc(alike, func(a, b *record) int { return cmp.Compare(a.Call, b.Call) })
		for rank, r := range alike {
			r.In.class, r.In.rank = m.classes, rank
		}
		m.classes++
	}
	m.start.unknown = make([]int, m.classes)
	operations = append(operations, porcupine.Operation{
		Input: &input{Kind: end}, Output: &output{}, Call: last + 1, Return: last + 2})
	return m, operations
}

// write leaves the history in `folder`.
func (h *history) write(folder string) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, h.Table+".json"), text, 0o644)
}

// read is the reverse.
func read(path string) (*history, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	h := &history{}
	return h, json.Unmarshal(text, h)
}

// check says whether the history is linearizable. If it is not, or the checker
// cannot tell in time, the history and a picture of it are left in `folder`.
func (h *history) check(folder string, patience time.Duration) (porcupine.CheckResult, string, error) {
	m, operations := h.calls()
	p := m.porcupine()
	result := porcupine.CheckOperationsTimeout(p, operations, patience)
	if result == porcupine.Ok {
		return result, "", nil
	}
	name := filepath.Join(folder, h.Table)
	if err := h.write(folder); err != nil {
		return result, "", err
	}
	// Of the keys that are wrong alone.
	if m.world.Apart {
		var wrong []porcupine.Operation
		one := p
		one.Partition = nil
		for _, part := range byKey(operations) {
			if porcupine.CheckOperationsTimeout(one, part, patience) != porcupine.Ok {
				wrong = append(wrong, part...)
				break
			}
		}
		p, operations = one, wrong
	}
	_, info := porcupine.CheckOperationsVerbose(p, operations, patience)
	err := porcupine.VisualizePath(p, info, name+".html")
	return result, fmt.Sprintf("%s.json, %s.html\n%s", name, name, dead(info, operations)), err
}

// dead describes where the longest order of calls ends: the last ones of it, and
// those that were under way and do not fit.
func dead(info porcupine.LinearizationInfo, operations []porcupine.Operation) string {
	var longest []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, partial := range partition {
			if len(partial) > len(longest) {
				longest = partial
			}
		}
	}
	in := map[any]bool{}
	at := int64(math.MinInt64)
	for _, o := range longest {
		in[o.Input] = true
	}
	text := ""
	describe := func(o porcupine.Operation) string {
		returns := "never"
		if o.Return != math.MaxInt64 {
			returns = fmt.Sprintf("%.6f", float64(o.Return)/1e9)
		}
		return fmt.Sprintf("    client %d [%.6f..%s] %s\n", o.ClientId, float64(o.Call)/1e9, returns,
			o.Input.(*input).describe(o.Output.(*output)))
	}
	for _, o := range operations {
		if o.Output.(*output).Generation < o.Input.(*input).Floor {
			text += "  older than promised:\n" + describe(o)
		}
	}
	text += fmt.Sprintf("  the longest order has %d of %d calls; it ends with\n", len(longest), len(operations))
	for _, o := range longest[max(0, len(longest)-6):] {
		text += describe(o)
		at = max(at, o.Call)
	}
	text += "  and these cannot follow\n"
	rest := slices.DeleteFunc(slices.Clone(operations), func(o porcupine.Operation) bool {
		return in[o.Input] || o.Return == math.MaxInt64 || o.Input.(*input).Kind == end
	})
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	for _, o := range rest[:min(len(rest), 4)] {
		text += describe(o)
	}
	return text
}
