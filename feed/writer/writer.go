// SPDX-License-Identifier: Apache-2.0

// Package writer brings what a rib.Table has to a server, and keeps it there.
//
// A writer owns the server's table by its writer_epoch. Whenever the stream of
// updates breaks it takes a higher epoch: what is still on the way is then refused,
// so that a list of what the server has stays true, and only differences are sent.
package writer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	planb "planb.dev/lookup/client/go"
	"planb.dev/lookup/client/go/planbv1"
	"planb.dev/lookup/feed/rib"
)

const (
	// A batch this large is compiled as a whole; more of them are on the way.
	maxBatch    = 50_000
	maxInFlight = 4
	// A batch waits for more credits than this, unless it is alone on the way.
	minBudget = 1024

	callTimeout = 30 * time.Second
	// A server that answers no batch for so long is taken for gone.
	answerTimeout = 60 * time.Second
	firstPause    = 20 * time.Millisecond
	longestPause  = 5 * time.Second
	// While a session tells all its routes batches are larger: each costs the server the
	// compilation of what it touches.
	tellingDelay = 50 * time.Millisecond

	// Unused next hops and groups that go by one call. Batches that are due go between two.
	maxUnused   = 10_000
	unusedPause = 100 * time.Millisecond
)

// Options of a Writer.
type Options struct {
	Client      *planb.Client
	Table       string
	CreateTable bool // if the server has none of the name
	Routes      *rib.Table
	// Changes that come within this time go as one batch; within 50 ms while a session
	// tells all.
	BatchDelay time.Duration
	// That of the table; 0: nothing is removed.
	ObjectGrace time.Duration
	Log         *slog.Logger
	// Called for each batch that is visible.
	Visible func(b *rib.Batch, at time.Time)
}

// Writer writes to one table of one server.
type Writer struct {
	options Options
	epoch   uint64
	// The most changes of a batch: fewer from a refused one on until all is there.
	limit int
	known bool // what adds no route goes first: the server may have no room for more
	stats struct {
		connected, ready, fenced atomic.Bool
		resyncs, refused, unused atomic.Uint64
	}
}

// Stats is the state of a Writer.
type Stats struct {
	Connected bool // the server's contents are known, and batches go there
	Ready     bool // all that sources told when all had told all is visible, now
	Fenced    bool // another writer owns the table
	Resyncs   uint64
	Refused   uint64 // batches that the server refused
	Unused    uint64 // next hops and groups that were removed
}

var errFenced = errors.New("another writer has taken the table (WRITER_FENCED)")

// New returns a Writer that has not connected.
func New(options Options) *Writer { return &Writer{options: options, limit: maxBatch} }

// Stats returns the state now.
func (w *Writer) Stats() Stats {
	s := &w.stats
	return Stats{s.connected.Load(), s.ready.Load(), s.fenced.Load(), s.resyncs.Load(), s.refused.Load(),
		s.unused.Load()}
}

// Run follows the table until ctx ends. If another writer takes the server's table,
// it writes no more, and waits for the end. `listed` is called after the first list.
func (w *Writer) Run(ctx context.Context, listed func()) {
	pause, last := firstPause, ""
	for ctx.Err() == nil {
		began, limit := time.Now(), w.limit
		err := w.follow(ctx, listed)
		w.stats.connected.Store(false)
		w.stats.ready.Store(false)
		w.options.Routes.Disconnect()
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errFenced) {
			w.stats.fenced.Store(true)
			w.options.Log.Error("writes no more until it is started again", "why", err)
			<-ctx.Done()
			return
		}
		if time.Since(began) > 2*longestPause {
			pause, last = firstPause, ""
		}
		if err.Error() != last {
			last = err.Error()
			w.options.Log.Warn("the server is not followed; trying again", "why", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		// A smaller batch is something else, and need not wait.
		if w.limit >= limit {
			pause = min(2*pause, longestPause)
		}
	}
}

// Makes batches smaller after one was refused, so that what a server takes goes there
// beside what it does not take.
func (w *Writer) shrink(refused *rib.Batch) {
	w.limit = max(min(w.limit, refused.Changes())/2, 1)
	// Not again if it was that which was refused.
	w.known = !w.known
	w.stats.refused.Add(1)
}

func (w *Writer) batch(credits int) *rib.Batch {
	budget := max(min(credits-1, w.limit), 1)
	if w.known {
		if batch := w.options.Routes.TakeKnown(budget); batch.Changes() > 0 {
			return batch
		}
		w.known = false
	}
	return w.options.Routes.Take(budget)
}

// Follows the server until the stream breaks.
func (w *Writer) follow(ctx context.Context, listed func()) error {
	if err := w.own(ctx); err != nil {
		return err
	}
	if err := w.list(ctx); err != nil {
		return err
	}
	w.stats.resyncs.Add(1)
	listed()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := w.options.Client.Tables().StreamUpdates(ctx)
	if err != nil {
		return err
	}
	s := &session{writer: w, stream: stream, replies: make(chan *planbv1.StreamUpdatesResponse)}
	failed := make(chan error, 1)
	go func() {
		for {
			reply, err := stream.Recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case s.replies <- reply:
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := stream.Send(&planbv1.StreamUpdatesRequest{Table: w.options.Table,
		Ack: planbv1.Ack_ACK_VISIBLE, WriterEpoch: w.epoch}); err != nil {
		return s.why(err, failed)
	}
	w.options.Routes.EndList()
	w.stats.connected.Store(true)
	w.options.Log.Info("the server is followed", "epoch", w.epoch)
	err = s.run(ctx, failed)
	// A message that is too large for the server ends the stream.
	if code := status.Code(err); len(s.inFlight) > 0 &&
		(code == codes.ResourceExhausted || code == codes.InvalidArgument) {
		w.shrink(s.inFlight[0].batch)
	}
	return err
}

// Takes the table by an epoch above all others, so that no other writer, nor a batch
// of this one that is still on the way, changes it.
func (w *Writer) own(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	tables := w.options.Client.Tables()
	table, err := tables.GetTable(ctx, &planbv1.GetTableRequest{Table: w.options.Table})
	if status.Code(err) == codes.NotFound && w.options.CreateTable {
		table, err = tables.CreateTable(ctx, &planbv1.CreateTableRequest{Table: w.options.Table})
	}
	if err != nil {
		return fmt.Errorf("GetTable: %w", err)
	}
	if w.epoch != 0 && table.WriterEpoch > w.epoch {
		return errFenced
	}
	if table.WriterEpoch == math.MaxUint64 {
		return fmt.Errorf("the table's writer_epoch is %d, and there is none above it", table.WriterEpoch)
	}
	// Two feeds that start at once take different ones.
	w.epoch = max(uint64(time.Now().UnixNano()), max(table.WriterEpoch, w.epoch)+1)
	_, err = tables.UpdateRoutes(ctx, &planbv1.UpdateRoutesRequest{
		Table: w.options.Table, Ack: planbv1.Ack_ACK_VISIBLE, WriterEpoch: w.epoch})
	if err != nil {
		return fmt.Errorf("UpdateRoutes: %w", err)
	}
	return nil
}

// Says that the server's table has all that it is to have.
func (w *Writer) sayComplete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := w.options.Client.Tables().UpdateRoutes(ctx, &planbv1.UpdateRoutesRequest{Table: w.options.Table,
		Ack: planbv1.Ack_ACK_ACCEPTED, WriterEpoch: w.epoch, Complete: proto.Bool(true)})
	if planb.ReasonOf(err) == "WRITER_FENCED" {
		return errFenced
	} else if err != nil {
		return fmt.Errorf("UpdateRoutes: %w", err)
	}
	return nil
}

// Tells the table, which is disconnected, what the server has.
func (w *Writer) list(ctx context.Context) error {
	// A server that stalls ends the list, however long it is.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stalled := time.AfterFunc(callTimeout, cancel)
	defer stalled.Stop()
	routes, tables := w.options.Routes, w.options.Client.Tables()
	objects, err := tables.ListNextHops(ctx, &planbv1.ListNextHopsRequest{Table: w.options.Table})
	if err != nil {
		return fmt.Errorf("ListNextHops: %w", err)
	}
	for {
		message, err := objects.Recv()
		if err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("ListNextHops: %w", err)
		}
		stalled.Reset(callTimeout)
		routes.ListNextHops(message.NextHops, message.Groups)
	}
	list, err := tables.ListRoutes(ctx, &planbv1.ListRoutesRequest{Table: w.options.Table})
	if err != nil {
		return fmt.Errorf("ListRoutes: %w", err)
	}
	for {
		message, err := list.Recv()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("ListRoutes: %w", err)
		}
		stalled.Reset(callTimeout)
		if err := routes.ListRoutes(message.Routes); err != nil {
			return fmt.Errorf("ListRoutes: %w", err)
		}
	}
}

// Removes what no route names any more; says whether more of it may be left. REQUIRES: no
// batch is on the way.
func (w *Writer) removeUnused(ctx context.Context) (more bool, err error) {
	objects, groups := w.options.Routes.Unused(maxUnused)
	count := len(objects) + len(groups)
	if count == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = w.options.Client.Tables().UpdateNextHops(ctx, &planbv1.UpdateNextHopsRequest{Table: w.options.Table,
		DeleteIds: objects, DeleteGroupIds: groups, Ack: planbv1.Ack_ACK_ACCEPTED, WriterEpoch: w.epoch})
	if planb.ReasonOf(err) == "WRITER_FENCED" {
		return false, errFenced
	} else if err != nil {
		return false, fmt.Errorf("UpdateNextHops: %w", err)
	}
	w.stats.unused.Add(uint64(count))
	w.options.Log.Info("what no route names was removed", "next_hops", len(objects), "groups", len(groups))
	return count == maxUnused, nil
}

// One stream of updates.
type session struct {
	writer  *Writer
	stream  planbv1.RouteTable_StreamUpdatesClient
	replies chan *planbv1.StreamUpdatesResponse

	credits  int
	granted  bool
	inFlight []sent // oldest first
	lastID   uint64
	complete bool // and that is to be said
}

type sent struct {
	id    uint64
	batch *rib.Batch
}

// Sends what differs, until the stream breaks.
func (s *session) run(ctx context.Context, failed <-chan error) error {
	w := s.writer
	answer := time.NewTimer(answerTimeout)
	defer answer.Stop()
	// When a batch is to be made; none while nothing has changed.
	due := time.NewTimer(0)
	defer due.Stop()
	scheduled, isDue, dueAt := true, false, time.Now()
	schedule := func(after time.Duration) {
		// A withdrawal that waits is due later than what comes meanwhile.
		if at := time.Now().Add(after); !scheduled || at.Before(dueAt) {
			scheduled, dueAt = true, at
			due.Reset(after)
		}
	}
	seldom := min(max(w.options.ObjectGrace/8, unusedPause), time.Minute)
	looks := time.NewTimer(seldom) // for what is unused
	defer looks.Stop()
	if w.options.ObjectGrace == 0 {
		looks.Stop()
	}
	look := false
	for {
		if look && len(s.inFlight) == 0 {
			more, err := w.removeUnused(ctx)
			if err != nil {
				return err
			}
			look = false
			if more {
				looks.Reset(unusedPause)
			} else {
				looks.Reset(seldom)
			}
		}
		// Before it looks nothing is sent: what is on the way comes first.
		mayWait := !look && len(s.inFlight) < maxInFlight && s.granted &&
			(s.credits > minBudget || len(s.inFlight) == 0)
		if isDue && mayWait {
			isDue = false
			batch := w.batch(s.credits)
			if err := s.send(batch); err != nil {
				return s.why(err, failed)
			}
			if !batch.Drained {
				schedule(0)
			} else if !batch.Next.IsZero() {
				schedule(max(time.Until(batch.Next), w.options.BatchDelay))
			}
		}
		if s.complete {
			if err := w.sayComplete(ctx); err != nil {
				return err
			}
			s.complete = false
		}
		if len(s.inFlight) == 0 && s.granted {
			answer.Reset(answerTimeout)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case <-answer.C:
			return fmt.Errorf("no answer to a batch within %s", answerTimeout)
		case <-w.options.Routes.Wake():
			delay := w.options.BatchDelay
			if w.options.Routes.Telling() {
				delay = max(delay, tellingDelay)
			}
			schedule(delay)
		case <-due.C:
			scheduled, isDue = false, true
		case <-looks.C:
			look = true
		case reply := <-s.replies:
			answer.Reset(answerTimeout)
			if err := s.take(reply); err != nil {
				return err
			}
		}
	}
}

func (s *session) send(batch *rib.Batch) error {
	if batch.Changes() == 0 {
		if len(s.inFlight) == 0 {
			s.drained(batch)
			return nil
		}
		// What is on the way has to be visible first.
		s.inFlight[len(s.inFlight)-1].batch.Drained = batch.Drained
		s.inFlight[len(s.inFlight)-1].batch.AllTold = batch.AllTold
		return nil
	}
	s.lastID++
	s.credits -= batch.Changes() + 1
	s.inFlight = append(s.inFlight, sent{s.lastID, batch})
	// Another client may have deleted objects that nothing used. The batch is then
	// refused, and the next list shows which ones.
	return s.stream.Send(&planbv1.StreamUpdatesRequest{BatchId: s.lastID, RequireNextHops: !batch.GivenIDs,
		NextHops: batch.NextHops, Groups: batch.Groups,
		ChangesV6: batch.ChangesV6, ChangesV4: batch.ChangesV4})
}

// Takes the reply to the oldest batch.
func (s *session) take(reply *planbv1.StreamUpdatesResponse) error {
	s.credits += int(reply.Credits)
	s.granted = true
	if refused := reply.Error; refused != nil {
		if refused.Reason == "WRITER_FENCED" {
			return errFenced
		}
		if len(s.inFlight) > 0 {
			s.writer.shrink(s.inFlight[0].batch)
		}
		return fmt.Errorf("a batch was refused: %s (%s) %s: %s",
			codes.Code(refused.Code), refused.Reason, refused.Field, refused.Message)
	}
	if reply.BatchId == 0 {
		return nil
	}
	if len(s.inFlight) == 0 || s.inFlight[0].id != reply.BatchId {
		return fmt.Errorf("an answer to batch %d, which is not the oldest", reply.BatchId)
	}
	batch := s.inFlight[0].batch
	s.inFlight = s.inFlight[1:]
	s.writer.options.Visible(batch, time.Now())
	s.drained(batch)
	return nil
}

// Of a batch that is visible.
func (s *session) drained(batch *rib.Batch) {
	if batch.Drained {
		s.writer.limit = maxBatch
	}
	if batch.Drained && batch.AllTold && !s.writer.stats.ready.Swap(true) {
		s.writer.options.Log.Info("all that sources told is visible")
		s.complete = true
	}
}

// The reason why the stream broke: Send only says that it did.
func (s *session) why(err error, failed <-chan error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	late := time.After(time.Second)
	for {
		select {
		case err := <-failed:
			return err
		case <-s.replies:
		case <-late:
			return errors.New("the stream of updates ended")
		}
	}
}
