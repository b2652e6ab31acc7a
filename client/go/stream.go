// SPDX-License-Identifier: Apache-2.0

package planb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"planb.dev/lookup/client/go/planbv1"
)

// Between attempts to open a stream again.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = time.Second
)

// Stream has batches in flight on one stream to the server, and returns their
// results in the order of Send. When the server goes away it opens another
// stream and sends the unanswered batches again.
//
// One goroutine may call Send and CloseSend while another one calls Receive.
type Stream struct {
	client *Client
	ctx    context.Context
	cancel context.CancelCauseFunc // without mu, which is held while it connects

	sending sync.Mutex // held while batches are sent; before mu

	mu       sync.Mutex
	changed  *sync.Cond
	stream   grpc.ClientStream
	hangUp   context.CancelFunc // ends it
	inFlight []*request         // sent or about to be, oldest first
	lastID   uint64
	closed   bool  // CloseSend was called
	met      error // by the last attempt; nil after a result
	failed   error // ends the stream
}

// NewStream opens a stream, which ends with ctx. It connects with the first
// batch. At most InFlight batches (see WithInFlight) wait for their results. With
// 512 streams of the client open it ends with codes.ResourceExhausted.
func (c *Client) NewStream(ctx context.Context) *Stream {
	s := &Stream{client: c}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.changed = sync.NewCond(&s.mu)
	stop := context.AfterFunc(c.closed, func() { s.cancel(context.Cause(c.closed)) })
	context.AfterFunc(s.ctx, func() {
		stop()
		s.fail(context.Cause(s.ctx))
	})
	return s
}

// Close ends the stream without waiting for results.
func (s *Stream) Close() { s.cancel(nil) }

// Send sends a batch. It waits while as many batches are in flight as the
// client allows. A batch that the server refuses fails in its Result. One with a
// negative MaxWait or with a Table that is no UTF-8 is not sent, and the stream goes on.
func (s *Stream) Send(batch *Batch) error {
	if batch.MaxWait < 0 {
		return invalid("MAX_WAIT_INVALID", "MaxWait", batch.MaxWait.String()+" is less than no time")
	}
	if table := cmp.Or(batch.Table, s.client.options.table); !utf8.ValidString(table) {
		return invalid("TABLE_NAME_INVALID", "Table", fmt.Sprintf("%q is no UTF-8", table))
	}
	s.mu.Lock()
	for s.failed == nil && len(s.inFlight) >= s.client.options.inFlight {
		s.changed.Wait()
	}
	s.mu.Unlock()
	retry := s.client.newRetry()
	for {
		sent, err := s.trySend(batch)
		if sent {
			return nil
		}
		if err := s.wait(retry, err); err != nil {
			return err
		}
	}
}

// Sends the batch, or leaves it to Receive, which opens another stream. An
// error says why there is no stream.
func (s *Stream) trySend(batch *Batch) (bool, error) {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	if s.failed != nil || s.closed {
		defer s.mu.Unlock()
		if s.failed != nil {
			return false, s.failed
		}
		return false, errors.New("planb: Send after CloseSend")
	}
	if s.stream == nil && len(s.inFlight) == 0 {
		if err := s.open(); err != nil {
			s.mu.Unlock()
			return false, err
		}
	}
	s.lastID++
	r := &request{id: s.lastID, Batch: *batch}
	if r.Table == "" {
		r.Table = s.client.options.table
	}
	r.RequireComplete = r.RequireComplete || s.client.options.complete
	s.inFlight = append(s.inFlight, r)
	s.changed.Broadcast()
	stream := s.stream
	s.mu.Unlock()
	if stream != nil {
		// If it is broken, Receive learns why.
		_ = stream.SendMsg(r)
	}
	return true, nil
}

// CloseSend says that no batch follows: after the result of the last one Receive
// returns io.EOF and ends the stream.
func (s *Stream) CloseSend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.changed.Broadcast()
}

// Receive returns the result of the oldest batch in flight, and waits for it
// and for a batch. Errors end the stream.
func (s *Stream) Receive() (Result, error) {
	var answer reply
	retry := s.client.newRetry()
	for {
		stream, why := s.await()
		if why != nil {
			return Result{}, why
		}
		if why = stream.RecvMsg(&answer); why == nil {
			failure, _ := answer.result.Err.(*Error)
			if failure == nil || failure.Code != codes.Unavailable {
				break
			}
			// A server that drains fails batches that wait so, in band.
			why = failure
		}
		for why != nil {
			if err := s.wait(retry, why); err != nil {
				return Result{}, err
			}
			why = s.reopen()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return Result{}, s.failed
	}
	if expected := s.inFlight[0].id; answer.id != expected {
		return Result{}, s.failLocked(fmt.Errorf("planb: a reply to batch %d came for batch %d", answer.id, expected))
	}
	if err := s.inFlight[0].check(&answer.result); err != nil {
		return Result{}, s.failLocked(err)
	}
	s.inFlight, s.met = s.inFlight[1:], nil
	s.changed.Broadcast()
	return answer.result, nil
}

// The stream, once a batch is in flight; io.EOF if none will be.
func (s *Stream) await() (grpc.ClientStream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.failed == nil && len(s.inFlight) == 0 && !s.closed {
		s.changed.Wait()
	}
	if s.failed != nil {
		return nil, s.failed
	}
	if len(s.inFlight) == 0 {
		return nil, s.failLocked(io.EOF)
	}
	return s.stream, nil
}

// REQUIRES: mu is held.
func (s *Stream) open() error {
	streams := &s.client.streams
	if streams.Add(1) > maxStreams {
		streams.Add(-1)
		return &Error{Code: codes.ResourceExhausted, Reason: "TOO_MANY_STREAMS",
			Message: fmt.Sprintf("this client has %d streams open", maxStreams)}
	}
	ctx, cancel := context.WithCancel(s.ctx)
	closed := sync.OnceFunc(func() { streams.Add(-1) })
	context.AfterFunc(ctx, closed)
	hangUp := func() { cancel(); closed() }
	stream, err := s.client.connection.NewStream(ctx,
		&planbv1.RouteLookup_ServiceDesc.Streams[0],
		planbv1.RouteLookup_BatchLookup_FullMethodName,
		grpc.ForceCodecV2(batchCodec{}))
	if err != nil {
		hangUp()
		return err
	}
	s.stream, s.hangUp = stream, hangUp
	return nil
}

// Opens another stream in place of the broken one, and sends the unanswered
// batches there.
func (s *Stream) reopen() error {
	s.mu.Lock()
	s.hangUp() // a SendMsg on the broken stream has an end
	s.mu.Unlock()
	s.sending.Lock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = nil
	if err := s.open(); err != nil {
		s.sending.Unlock()
		return err
	}
	stream, again := s.stream, append([]*request(nil), s.inFlight...)
	// Beside Receive, because the server stops reading while its replies are not
	// read. Send waits until these are sent.
	go func() {
		defer s.sending.Unlock()
		for _, r := range again {
			if stream.SendMsg(r) != nil {
				return
			}
		}
	}()
	return nil
}

// The attempts of one call. They end `patience` after the first error: a call
// may wait long for a batch or for an answer before that.
type retry struct {
	client *Client
	pause  time.Duration
	until  time.Time // zero before the first error
}

func (c *Client) newRetry() *retry { return &retry{client: c, pause: firstPause} }

// Waits until another attempt may be made after the error `why`, or returns the
// error that ends the call.
func (r *retry) wait(ctx context.Context, why error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	now := time.Now()
	if r.until.IsZero() {
		r.until = now.Add(r.client.options.patience)
	}
	err, pause := r.client.failure(ctx, why), r.pause
	var failure *Error
	if errors.As(err, &failure) {
		switch {
		case failure.RetryAfter > 0:
			pause = max(pause, failure.RetryAfter)
		case failure.Code == codes.Unavailable:
		default:
			return err
		}
	} else if err != io.EOF { // with which a server ends a stream, too
		return err
	}
	if !now.Before(r.until) {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(min(pause, r.until.Sub(now))):
	}
	r.pause = min(2*r.pause, longestPause)
	return nil
}

// Waits until another attempt may be made after the error why, or ends the stream.
func (s *Stream) wait(r *retry, why error) error {
	s.mu.Lock()
	if s.ctx.Err() == nil {
		s.met = fromStatus(why)
	}
	s.mu.Unlock()
	if err := r.wait(s.ctx, why); err != nil {
		return s.fail(err)
	}
	return nil
}

func (s *Stream) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failLocked(err)
}

func (s *Stream) failLocked(err error) error {
	if s.failed == nil {
		if s.ctx.Err() != nil && s.met != nil {
			err = fmt.Errorf("%w: %w", err, s.met)
		}
		s.failed = err
		s.cancel(err)
		s.changed.Broadcast()
	}
	return s.failed
}
