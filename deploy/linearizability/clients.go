// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"planb.dev/lookup/client/go/planbv1"
)

var started = time.Now()

func now() int64 { return time.Since(started).Nanoseconds() }

// nested has prefixes of both families within each other.
func nested(keys int) world {
	return world{
		Prefixes: []string{"2001:db8::/32", "2001:db8::/48", "10.0.0.0/8", "10.1.0.0/16", "203.0.113.0/24"}[:keys],
		Probes:   []string{"2001:db8:1::1", "2001:db8::1", "10.2.0.1", "10.1.0.1", "203.0.113.7"}[:keys],
		Parents:  []int{-1, 0, -1, 2, -1}[:keys],
	}
}

// apart has prefixes beside each other.
func apart(keys int) world {
	w := world{Apart: true}
	for i := range keys {
		w.Prefixes = append(w.Prefixes, fmt.Sprintf("2001:db8:%x::/48", i+1))
		w.Probes = append(w.Probes, fmt.Sprintf("2001:db8:%x::1", i+1))
		w.Parents = append(w.Parents, -1)
	}
	return w
}

// table is one table under test, and what its clients share. Thread-safe.
type table struct {
	h        history // its start is set by the creator
	accepted atomic.Uint64
	epoch    atomic.Uint64
	value    atomic.Uint32
	numbers  int  // of clients so far
	calm     bool // no client raises its epoch

	mu      sync.Mutex
	records []record
	// Calls of certain refusal that say nothing of the table, by reason.
	aside     map[string]int
	surprises []string
}

func newTable(name string, w world) *table {
	return &table{h: history{Table: name, World: w, Routes: make([]uint32, len(w.Prefixes))}, aside: map[string]int{}}
}

func (t *table) add(r record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.records = append(t.records, r)
}

func (t *table) surprise(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.surprises = append(t.surprises, what)
}

func raise(to *atomic.Uint64, value uint64) {
	for old := to.Load(); old < value && !to.CompareAndSwap(old, value); old = to.Load() {
	}
}

// Reasons that depend on the table: the refusal is part of its history.
var reasonsOfTable = map[string]bool{
	"ROUTE_EXISTS": true, "ROUTE_NOT_FOUND": true, "GENERATION_MISMATCH": true, "WRITER_FENCED": true,
}

// Reasons for which a server may refuse any call at some time. Nothing changes:
// a batch that happens all the same has no maker.
var reasonsAside = map[string]bool{
	"STORE_FAILED": true, "STORE_CONFLICT": true, "DRAINING": true, "TOO_MANY_PENDING": true,
	"TOO_MANY_WAITERS": true, "TOO_MANY_REQUEST_IDS": true, "TABLE_NOT_FOUND": true,
	"GENERATION_NOT_VISIBLE": true,
}

func reasonOf(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.Reason
		}
	}
	return ""
}

// judge says what an error means for a call: `aside` if it has certainly changed
// nothing and says nothing of the table.
//
// The contract: a batch that is refused with a reason changes nothing, except for
// STORE_UNDECIDED. It may have been accepted after DEADLINE_EXCEEDED (so
// NOT_REPLICATED too), CANCELLED, or a broken connection.
func (t *table) judge(err error, left bool) (out output, aside bool) {
	if err == nil {
		return output{}, false
	}
	reason, code := reasonOf(err), status.Code(err)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case reasonsOfTable[reason]:
		return output{Outcome: refused, Reason: reason}, false
	case !left:
		t.aside["not sent"]++
		return output{}, true
	case code == codes.DeadlineExceeded || code == codes.Canceled || reason == "NOT_REPLICATED" ||
		code == codes.Unavailable && reason == "":
		return output{Outcome: unknown, Reason: reason}, false
	case code == codes.ResourceExhausted || reasonsAside[reason]:
		t.aside[reason]++
		return output{}, true
	}
	t.surprises = append(t.surprises, fmt.Sprintf("%s: %v %s", t.h.Table, err, reason))
	return output{}, true
}

// client makes calls to one table, one after the other, each to a server that it
// picks at random. Not thread-safe.
type client struct {
	number      int
	t           *table
	random      *rand.Rand
	connections []*grpc.ClientConn
	up          func(server int) bool
	epoch       uint64
	acked       uint64 // the newest generation that it was told
	last        []change
	named       int
	answered    []input // named, to be repeated
}

func (c *client) chance(percent int) bool { return c.random.IntN(100) < percent }

// server picks one of the first, mostly one that should answer.
func (c *client) server(of int) int {
	of = min(of, len(c.connections))
	s := c.random.IntN(of)
	for range 5 {
		if c.up(s) {
			break
		}
		s = c.random.IntN(of)
	}
	return s
}

// run makes calls until ctx ends.
func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil {
		switch {
		case c.chance(30):
			c.look(c.server(servers), c.minimum())
		case len(c.answered) > 0 && c.chance(6):
			c.write(c.server(*writable), c.answered[c.random.IntN(len(c.answered))])
		default:
			c.insist(c.invent())
		}
		if c.chance(50) {
			time.Sleep(time.Duration(c.random.IntN(4000)) * time.Microsecond)
		}
	}
}

func (c *client) minimum() uint64 {
	if c.chance(40) {
		return 0
	}
	return c.acked
}

// A next hop that may be there already, or one that only this call has.
func (c *client) nextHop() uint32 {
	if c.chance(50) {
		return uint32(1 + c.random.IntN(3))
	}
	return 1000 + c.t.value.Add(1)
}

func (c *client) change(key int) change {
	switch n := c.random.IntN(100); {
	case n < 30:
		return change{planbv1.RouteUpdate_OP_UPSERT, key, c.nextHop()}
	case n < 60:
		return change{planbv1.RouteUpdate_OP_DELETE, key, 0}
	case n < 75:
		return change{planbv1.RouteUpdate_OP_INSERT, key, c.nextHop()}
	case n < 88:
		return change{planbv1.RouteUpdate_OP_REPLACE, key, c.nextHop()}
	}
	return change{planbv1.RouteUpdate_OP_DELETE_STRICT, key, 0}
}

// invent makes up a call that writes.
func (c *client) invent() input {
	keys := len(c.t.h.World.Prefixes)
	in := input{Kind: update}
	key := c.random.IntN(keys)
	if c.t.h.World.Apart && c.chance(60) {
		key = c.random.IntN(3)
	}
	in.Changes = []change{c.change(key)}
	if c.chance(50) {
		in.ID = c.newID()
	}
	if c.t.h.World.Apart {
		return in
	}
	switch n := c.random.IntN(100); {
	case n < 10:
		for _, k := range c.random.Perm(keys)[:1+c.random.IntN(keys)] {
			if k != key {
				in.Changes = append(in.Changes, c.change(k))
			}
		}
	case n < 14 && c.last != nil:
		in.Kind, in.Changes = replace, c.last // as it was, for this client
	case n < 18:
		in.Kind, in.Changes = replace, nil
		for k := range keys {
			if c.chance(50) {
				in.Changes = append(in.Changes, change{planbv1.RouteUpdate_OP_UPSERT, k, c.nextHop()})
			}
		}
	}
	if c.chance(2) && !c.t.calm {
		c.epoch = c.t.epoch.Add(1)
	}
	in.Epoch = c.epoch
	if c.chance(10) {
		expected := c.acked
		if c.chance(50) {
			expected = c.t.accepted.Load()
		}
		in.Expected = &expected
	}
	if c.chance(5) {
		in.ValidateOnly, in.ID = true, ""
	}
	return in
}

func (c *client) newID() string {
	c.named++
	return fmt.Sprintf("%d-%d", c.number, c.named)
}

// insist writes. A named call is repeated, at any server, until it is answered:
// so its outcome is known.
func (c *client) insist(in input) {
	for open, until := false, now()+patience.Nanoseconds(); now() < until; {
		out, aside := c.write(c.server(*writable), in)
		if !aside && out.Outcome == done && in.ID != "" {
			c.answered = append(c.answered[max(0, len(c.answered)-4):], in)
		}
		open = open || !aside && out.Outcome == unknown
		if in.ID == "" || !open || !aside && out.Outcome != unknown {
			return
		}
		time.Sleep(time.Duration(5+c.random.IntN(30)) * time.Millisecond)
	}
	c.t.surprise(fmt.Sprintf("%s: no answer to request %s", c.t.h.Table, in.ID))
}

func (c *client) ack() planbv1.Ack {
	switch n := c.random.IntN(100); {
	case n < 30:
		return planbv1.Ack_ACK_ACCEPTED
	case n < 80:
		return planbv1.Ack_ACK_VISIBLE
	case n < 90:
		return planbv1.Ack_ACK_PERSISTED
	}
	return planbv1.Ack_ACK_REPLICATED
}

type replied interface {
	GetGeneration() uint64
	GetVisibleGeneration() uint64
	GetAdded() uint64
	GetChanged() uint64
	GetRemoved() uint64
	GetUnchanged() uint64
}

// write makes one call and records it.
func (c *client) write(server int, in input) (output, bool) {
	timeout := 2500 * time.Millisecond
	switch n := c.random.IntN(100); {
	case n < 2:
		timeout = time.Duration(1+c.random.IntN(8)) * time.Millisecond
	case n < 10:
		timeout = 15 * time.Second // longer than the store takes to decide
	}
	told := &sent{}
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), sentKey{}, told), timeout)
	defer cancel()
	r := record{Client: c.number, Server: server, In: in, Ack: c.ack()}
	if in.ValidateOnly {
		r.Ack = planbv1.Ack_ACK_UNSPECIFIED // there is nothing to wait for
	}
	stub := planbv1.NewRouteTableClient(c.connections[server])
	var reply replied
	var err error
	r.Call = now()
	if in.Kind == replace {
		reply, err = c.sendReplace(ctx, stub, &r)
	} else {
		request := &planbv1.UpdateRoutesRequest{Table: c.t.h.Table, Ack: r.Ack, ExpectedGeneration: in.Expected,
			ValidateOnly: in.ValidateOnly, RequestId: in.ID, WriterEpoch: in.Epoch}
		for _, change := range in.Changes {
			request.Updates = append(request.Updates, &planbv1.RouteUpdate{Op: change.Op,
				Prefix: c.prefix(change.Key), NextHopId: change.NextHop})
		}
		reply, err = stub.UpdateRoutes(ctx, request)
	}
	r.Return = now()
	out, aside := c.t.judge(err, told.yes)
	if aside {
		return out, true
	}
	r.Out = out
	if out.Outcome == done {
		r.Out.Generation, r.Visible = reply.GetGeneration(), reply.GetVisibleGeneration()
		r.Out.Counts = counts{reply.GetAdded(), reply.GetChanged(), reply.GetRemoved(), reply.GetUnchanged()}
		c.acked = max(c.acked, r.Out.Generation)
		raise(&c.t.accepted, r.Out.Generation)
	}
	if out.Reason == "WRITER_FENCED" && c.chance(50) {
		c.epoch = c.t.epoch.Load()
	}
	c.t.add(r)
	return r.Out, false
}

func (c *client) prefix(key int) *planbv1.Prefix {
	return &planbv1.Prefix{Text: c.t.h.World.Prefixes[key]}
}

func (c *client) sendReplace(ctx context.Context, stub planbv1.RouteTableClient, r *record) (replied, error) {
	stream, err := stub.ReplaceRoutes(ctx)
	if err != nil {
		return nil, err
	}
	request := &planbv1.ReplaceRoutesRequest{Table: c.t.h.Table, Ack: r.Ack, ExpectedGeneration: r.In.Expected,
		ValidateOnly: r.In.ValidateOnly, RequestId: r.In.ID, WriterEpoch: r.In.Epoch, Commit: true}
	for _, change := range r.In.Changes {
		request.Routes = append(request.Routes, &planbv1.Route{Prefix: c.prefix(change.Key), NextHopId: change.NextHop})
	}
	// An error of Send is that of CloseAndRecv.
	_ = stream.Send(request)
	return stream.CloseAndRecv()
}

// look looks one address in each prefix up, or, where keys are apart, in one.
func (c *client) look(server int, minimum uint64) bool {
	in := input{Kind: lookup}
	if c.t.h.World.Apart {
		key := c.random.IntN(len(c.t.h.World.Prefixes))
		if c.chance(40) {
			key = c.random.IntN(3)
		}
		return c.lookAt(server, minimum, append(in.Keys, key))
	}
	for key := range c.t.h.World.Probes {
		in.Keys = append(in.Keys, key)
	}
	return c.lookAt(server, minimum, in.Keys)
}

func (c *client) lookAt(server int, minimum uint64, keys []int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	r := record{Client: c.number, Server: server, In: input{Kind: lookup, Keys: keys}, MinGeneration: minimum}
	request := &planbv1.LookupRequest{Table: c.t.h.Table, MinGeneration: minimum}
	for _, key := range keys {
		request.Addresses = append(request.Addresses,
			&planbv1.Address{Form: &planbv1.Address_Text{Text: c.t.h.World.Probes[key]}})
	}
	r.Call = now()
	reply, err := planbv1.NewRouteLookupClient(c.connections[server]).Lookup(ctx, request)
	r.Return = now()
	if err == nil && len(reply.Results) != len(keys) {
		err = errors.New("another number of answers")
	}
	if err != nil {
		c.t.judge(err, true) // a surprise, or nothing
		return false
	}
	r.Out.Generation = reply.Generation
	c.last = nil
	for i, result := range reply.Results {
		r.Out.NextHops = append(r.Out.NextHops, result.NextHopId)
		// What a shorter prefix answers is no route of this one.
		if parent := c.t.h.World.Parents[keys[i]]; result.NextHopId != 0 &&
			(parent < 0 || reply.Results[parent].NextHopId != result.NextHopId) {
			c.last = append(c.last, change{planbv1.RouteUpdate_OP_UPSERT, keys[i], result.NextHopId})
		}
	}
	c.t.add(r)
	return true
}
