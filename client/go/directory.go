// SPDX-License-Identifier: Apache-2.0

package planb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"planb.dev/lookup/client/go/planbv1"
)

// How long one list of a directory may take.
const listTime = 30 * time.Second

// NextHops are the next-hop objects and groups of a table at one generation.
// Nothing changes them, so goroutines share them; nor may their readers change
// what they return.
type NextHops struct {
	Generation uint64
	nextHops   map[uint32]*planbv1.NextHop
	groups     map[uint32]*planbv1.NextHopGroup
}

// NextHop returns the object with an id; nil without one.
func (n *NextHops) NextHop(id uint32) *planbv1.NextHop { return n.nextHops[id] }

// Group returns the group with an id; nil without one. NextHop has its members.
func (n *NextHops) Group(id uint32) *planbv1.NextHopGroup { return n.groups[id] }

// Len counts both.
func (n *NextHops) Len() int { return len(n.nextHops) + len(n.groups) }

// NextHopDirectory tells what ids of next hops mean, without a call for each: it
// follows the objects and groups of a table (GetTable, ListNextHops, WatchRoutes).
// While the server is away the last ones stay, and State says so; then they are
// what the server says: none, if it lost its table. Safe for concurrent use.
type NextHopDirectory struct {
	client *Client
	ctx    context.Context // of the following
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when run has ended
	now    atomic.Pointer[NextHops]

	mu      sync.Mutex
	err     error         // why the table is not followed
	changed chan struct{} // closed at the next change of now or err
}

// FollowNextHops returns a directory when the objects are there, or an error that
// does not pass, or ctx ends, or the client is closed. Close it.
func (c *Client) FollowNextHops(ctx context.Context) (*NextHopDirectory, error) {
	following, cancel := context.WithCancelCause(c.closed)
	d := &NextHopDirectory{
		client: c, ctx: following, cancel: cancel, done: make(chan struct{}), changed: make(chan struct{}),
		err: &Error{Code: codes.Unavailable, Message: "the server was not heard yet"},
	}
	go d.run(following)
	err := d.until(ctx, func() (bool, error) {
		if d.now.Load() == nil && !passes(d.err) {
			return true, d.err
		}
		return d.now.Load() != nil, nil
	})
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Read returns the newest objects. It takes no lock and never waits.
func (d *NextHopDirectory) Read() *NextHops { return d.now.Load() }

// State is nil while the table is followed; else why it is not, now: the objects
// may be stale.
func (d *NextHopDirectory) State() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// Wait returns when Read returns that generation or a later one, or with ctx, or
// when the directory or its client is closed.
func (d *NextHopDirectory) Wait(ctx context.Context, generation uint64) error {
	return d.until(ctx, func() (bool, error) { return d.now.Load().Generation >= generation, nil })
}

// Close ends the following. Read goes on to return the last objects.
func (d *NextHopDirectory) Close() {
	d.cancel(closedError("directory"))
	<-d.done
}

// Waits until met, which is called with mu held, says so.
func (d *NextHopDirectory) until(ctx context.Context, met func() (bool, error)) error {
	for {
		d.mu.Lock()
		is, err := met()
		changed, why := d.changed, d.err
		d.mu.Unlock()
		if is || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-d.ctx.Done():
			return context.Cause(d.ctx)
		case <-ctx.Done():
			if why == nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("%w: %w", context.Cause(ctx), why)
		}
	}
}

// Another attempt may pass without a change at the server.
func passes(err error) bool {
	var failure *Error
	return !errors.As(err, &failure) || failure.Temporary() || failure.Code == codes.OutOfRange ||
		failure.Code == codes.Canceled || failure.Code == codes.DeadlineExceeded
}

func (d *NextHopDirectory) run(ctx context.Context) {
	defer close(d.done)
	pause := firstPause
	for ctx.Err() == nil {
		began := time.Now()
		err := d.follow(ctx)
		d.set(nil, err)
		// A watch that fails soon after its start, each time, is not opened at once again.
		if time.Since(began) > longestPause {
			pause = firstPause
		}
		wait := pause/2 + rand.N(pause/2)
		var failure *Error
		if errors.As(err, &failure) {
			wait = max(wait, failure.RetryAfter)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		pause = min(2*pause, longestPause)
	}
}

func (d *NextHopDirectory) set(objects *NextHops, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if objects != nil {
		d.now.Store(objects)
	}
	d.err = err
	close(d.changed)
	d.changed = make(chan struct{})
}

// Follows until an error.
func (d *NextHopDirectory) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asked, stop := context.WithTimeout(ctx, listTime)
	defer stop()
	name := d.client.options.table
	table, err := d.client.tables.GetTable(asked, &planbv1.GetTableRequest{Table: name})
	if err != nil {
		return fromStatus(err)
	}
	watch, err := d.client.tables.WatchRoutes(ctx,
		&planbv1.WatchRoutesRequest{Table: name, StartGeneration: table.VisibleGeneration})
	if err != nil {
		return fromStatus(err)
	}
	// The watch is open before the list is made, so that a server that restarts in
	// between, perhaps with another table, ends it.
	message, err := watch.Recv()
	if err != nil {
		return fromStatus(err)
	}
	objects, err := d.list(asked, name, table.VisibleGeneration)
	if err != nil {
		return err
	}
	d.set(objects, nil)
	var part []*planbv1.WatchRoutesResponse // of a generation that is not complete
	for {
		if message.Reset_ {
			return &Error{Code: codes.Internal, Message: "a whole table came that was not asked for"}
		}
		if message.Generation > objects.Generation {
			message.Updates = nil
			part = append(part, message)
			if message.GenerationComplete {
				objects = objects.with(part)
				if objects.Len() > d.client.options.maxNextHops {
					return d.tooMany()
				}
				d.set(objects, nil)
				part = nil
			}
		}
		if message, err = watch.Recv(); err == io.EOF {
			return &Error{Code: codes.Unavailable, Message: "the server ended the watch"}
		} else if err != nil {
			return fromStatus(err)
		}
	}
}

// The objects as the server lists them, of the generation least or a later one.
func (d *NextHopDirectory) list(ctx context.Context, table string, least uint64) (*NextHops, error) {
	list, err := d.client.tables.ListNextHops(ctx, &planbv1.ListNextHopsRequest{Table: table})
	if err != nil {
		return nil, fromStatus(err)
	}
	objects := &NextHops{nextHops: map[uint32]*planbv1.NextHop{}, groups: map[uint32]*planbv1.NextHopGroup{}}
	for {
		chunk, err := list.Recv()
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, fromStatus(err)
		}
		objects.Generation = chunk.Generation
		objects.set(chunk.NextHops, chunk.Groups)
		if objects.Len() > d.client.options.maxNextHops {
			return nil, d.tooMany()
		}
	}
	if objects.Generation < least {
		return nil, &Error{Code: codes.Unavailable, Message: fmt.Sprintf(
			"the server that lists is at generation %d, before %d of the one that is watched", objects.Generation, least)}
	}
	return objects, nil
}

func (n *NextHops) set(nextHops []*planbv1.NextHop, groups []*planbv1.NextHopGroup) {
	for _, each := range nextHops {
		n.nextHops[each.Id] = each
	}
	for _, each := range groups {
		n.groups[each.Id] = each
	}
}

// The objects after the changes of a generation. They share what did not change.
func (n *NextHops) with(parts []*planbv1.WatchRoutesResponse) *NextHops {
	next := &NextHops{nextHops: n.nextHops, groups: n.groups}
	for _, part := range parts {
		next.Generation = part.Generation
		if len(part.NextHops)+len(part.Groups)+len(part.DeletedNextHopIds)+len(part.DeletedGroupIds) == 0 {
			continue
		}
		if n != nil {
			next.nextHops, next.groups, n = maps.Clone(n.nextHops), maps.Clone(n.groups), nil
		}
		for _, id := range part.DeletedNextHopIds {
			delete(next.nextHops, id)
		}
		for _, id := range part.DeletedGroupIds {
			delete(next.groups, id)
		}
		next.set(part.NextHops, part.Groups)
	}
	return next
}

func (d *NextHopDirectory) tooMany() error {
	return &Error{Code: codes.FailedPrecondition, Message: fmt.Sprintf(
		"the table has more than %d next hops and groups", d.client.options.maxNextHops)}
}
