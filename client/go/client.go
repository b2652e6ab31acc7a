// SPDX-License-Identifier: Apache-2.0

// Package planb looks up next hops by a PlanB Lookup server: longest-prefix
// match of IPv6 and IPv4 addresses, in batches of any size.
//
// A Client is one connection, for all goroutines. Lookup takes addresses and
// returns next hops; NewStream keeps batches of packed addresses in flight for
// programs that look up packets. Both go on when the server restarts.
package planb

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"

	"planb.dev/lookup/client/go/planbv1"
)

// The addresses of one batch of Lookup.
const lookupBatch = 16384

// The streams of a client are far below what the server lets one connection have
// (--max_connection_streams, 1,000): streams that stay open take nothing from
// calls, which would wait for the end of one.
const (
	lookupStreams = 64 // of Lookup
	maxStreams    = 512
)

// Pings find out that a server is silent for good. It closes connections with
// pings more often than every 10 s (--min_ping_interval). A ping that is late by
// pingTimeout ends the connection: two never come closer than the difference.
const (
	pingAfter   = 20 * time.Second
	pingTimeout = 10 * time.Second
)

type options struct {
	table    string
	inFlight int
	patience time.Duration
	complete bool
	idle     time.Duration // after which streams of Lookup end
	dial     []grpc.DialOption

	maxNextHops int
}

// Option changes what Dial returns.
type Option func(*options)

// WithTable names the table of calls; "" is the default table.
func WithTable(name string) Option { return func(o *options) { o.table = name } }

// WithInFlight says how many batches a stream may have in flight: 1 or more;
// default 4.
func WithInFlight(batches int) Option { return func(o *options) { o.inFlight = batches } }

// WithPatience says how long a stream tries to reach a server that went away;
// default 10 s.
func WithPatience(patience time.Duration) Option { return func(o *options) { o.patience = patience } }

// WithRequireComplete makes lookups wait, as long as WithPatience says, until the table
// is complete: until its writer has said that it has all that it is to have. Resolve does
// not wait: its error has the reason TABLE_NOT_COMPLETE then.
func WithRequireComplete() Option { return func(o *options) { o.complete = true } }

// WithMaxNextHops says how many objects and groups a directory takes; default
// 2,000,000. A server has at most 1,000,000 of each, unless told otherwise.
func WithMaxNextHops(most int) Option { return func(o *options) { o.maxNextHops = most } }

// WithTLS speaks TLS; the default is a connection without it.
func WithTLS(config *tls.Config) Option {
	return WithDialOptions(grpc.WithTransportCredentials(credentials.NewTLS(config)))
}

// WithDialOptions adds options of gRPC, which come last.
func WithDialOptions(more ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, more...) }
}

// Client calls one server. Safe for concurrent use.
type Client struct {
	options    options
	connection *grpc.ClientConn
	tables     planbv1.RouteTableClient
	lookups    planbv1.RouteLookupClient

	closed context.Context         // ends with Close
	close  context.CancelCauseFunc // ends it

	streams atomic.Int64  // open
	lookup  chan struct{} // has an element for each Lookup that has a stream

	mu   sync.Mutex
	idle []*idleStream // the last used ones at the end
}

// A stream of Lookup without batches in flight.
type idleStream struct {
	*Stream
	end *time.Timer
}

// Dial returns a client of the server at target: HOST:PORT, unix:///PATH or another
// name with a scheme that gRPC knows. It does not connect; the first call does.
func Dial(target string, opts ...Option) (*Client, error) {
	o := options{inFlight: 4, patience: 10 * time.Second, idle: 10 * time.Second,
		maxNextHops: 2_000_000}
	o.dial = []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)),
		grpc.WithInitialWindowSize(4 << 20),
		grpc.WithInitialConnWindowSize(8 << 20),
		grpc.WithReadBufferSize(256 << 10),
		grpc.WithWriteBufferSize(256 << 10),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: 1.6, Jitter: 0.2, MaxDelay: longestPause},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout}),
	}
	for _, option := range opts {
		option(&o)
	}
	if o.inFlight < 1 {
		return nil, fmt.Errorf("planb: WithInFlight(%d): a stream has one batch in flight at least", o.inFlight)
	}
	if o.patience < 0 {
		return nil, fmt.Errorf("planb: WithPatience(%s) is less than no time", o.patience)
	}
	if err := checkTarget(target); err != nil {
		return nil, err
	}
	connection, err := grpc.NewClient(target, o.dial...)
	if err != nil {
		return nil, err
	}
	closed, end := context.WithCancelCause(context.Background())
	return &Client{
		options:    o,
		connection: connection,
		closed:     closed,
		close:      end,
		tables:     planbv1.NewRouteTableClient(connection),
		lookups:    planbv1.NewRouteLookupClient(connection),
		lookup:     make(chan struct{}, lookupStreams),
	}, nil
}

// checkTarget refuses what gRPC would try to connect to until the end of each call.
func checkTarget(target string) error {
	if scheme, _, _ := strings.Cut(target, ":"); resolver.Get(scheme) != nil {
		return nil // checked by its resolver
	}
	_, text, err := net.SplitHostPort(target)
	if err != nil {
		return fmt.Errorf("planb: target %q is neither HOST:PORT nor unix:///PATH", target)
	}
	if port, err := strconv.ParseUint(text, 10, 16); err != nil || port == 0 {
		return fmt.Errorf("planb: target %q: the port is not in 1..65535", target)
	}
	return nil
}

func closedError(what string) error {
	return &Error{Code: codes.Canceled, Message: "the " + what + " is closed"}
}

// Close ends the connection and all calls, streams and directories.
func (c *Client) Close() error {
	c.close(closedError("client"))
	c.mu.Lock()
	for _, stream := range c.idle {
		stream.end.Stop()
		stream.Close()
	}
	c.idle = nil
	c.mu.Unlock()
	return c.connection.Close()
}

// Lookup returns the next hop of each address; 0: no route. An IPv4-mapped
// address is looked up as the IPv6 address that it is. Batches of one call may
// be answered from different generations. At most 64 calls are answered at once,
// each on a stream; others wait for their turn.
func (c *Client) Lookup(ctx context.Context, addresses []netip.Addr) ([]uint32, error) {
	batches, places, err := pack(addresses)
	if err != nil {
		return nil, err
	}
	stream, done, err := c.borrow(ctx)
	if err != nil {
		return nil, err
	}
	nextHops := make([]uint32, len(addresses))
	sent := make(chan error, 1)
	go func() {
		for i := range batches {
			if err := stream.Send(&batches[i]); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	var failed error
	for i := range batches {
		result, err := stream.Receive()
		if err != nil {
			<-sent
			done(false)
			return nil, err
		}
		if result.Err != nil {
			failed = result.Err
			continue
		}
		for j, place := range places[i] {
			nextHops[place] = result.NextHops[j]
		}
	}
	if err := <-sent; err != nil {
		done(false)
		return nil, err
	}
	done(true)
	if failed != nil {
		return nil, failed
	}
	return nextHops, nil
}

// Packs addresses into batches; places[i][j] is where answer j of batch i goes.
func pack(addresses []netip.Addr) ([]Batch, [][]int, error) {
	var batches []Batch
	var places [][]int
	for first := 0; first < len(addresses); first += lookupBatch {
		part := addresses[first:min(first+lookupBatch, len(addresses))]
		batch := Batch{V6: make([]byte, 0, 16*len(part))}
		place := make([]int, 0, len(part))
		var place4 []int
		for i, address := range part {
			if err := checkAddress(first+i, address); err != nil {
				return nil, nil, err
			}
			if address.Is4() {
				bytes := address.As4()
				batch.V4 = append(batch.V4, bytes[:]...)
				place4 = append(place4, first+i)
			} else {
				bytes := address.As16()
				batch.V6 = append(batch.V6, bytes[:]...)
				place = append(place, first+i)
			}
		}
		batches = append(batches, batch)
		places = append(places, append(place, place4...))
	}
	return batches, places, nil
}

func checkAddress(index int, address netip.Addr) error {
	why := ""
	switch {
	case !address.IsValid():
		why = "the zero netip.Addr is not an address"
	case address.Zone() != "":
		why = fmt.Sprintf("%s has a zone, which a table does not know", address)
	default:
		return nil
	}
	return invalid("ADDRESS_INVALID", fmt.Sprintf("addresses[%d]", index), why)
}

// A stream without batches in flight, of a bounded number. Call done(true) if it
// has none again. The stream ends with ctx.
func (c *Client) borrow(ctx context.Context) (*Stream, func(bool), error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, context.Cause(ctx)
	}
	select {
	case c.lookup <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	stream := c.takeIdle()
	if stream == nil {
		stream = c.NewStream(context.Background())
	}
	stop := context.AfterFunc(ctx, func() { stream.cancel(context.Cause(ctx)) })
	return stream, func(reusable bool) {
		if stop() && reusable {
			c.putIdle(stream)
		} else {
			stream.Close()
		}
		<-c.lookup
	}, nil
}

// The idle stream that was used last, so that those of a burst end; nil if there
// is none.
func (c *Client) takeIdle() *Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.idle)
	if n == 0 {
		return nil
	}
	last := c.idle[n-1]
	c.idle = slices.Delete(c.idle, n-1, n)
	last.end.Stop()
	return last.Stream
}

func (c *Client) putIdle(stream *Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := &idleStream{Stream: stream}
	idle.end = time.AfterFunc(c.options.idle, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if i := slices.Index(c.idle, idle); i >= 0 {
			c.idle = slices.Delete(c.idle, i, i+1)
			stream.Close()
		}
	})
	c.idle = append(c.idle, idle)
}

// Resolve returns, for a few addresses, the prefix that matched and the
// attributes of the next hop. At most as many as the server's
// --max_lookup_addresses.
func (c *Client) Resolve(ctx context.Context, addresses []netip.Addr) ([]*planbv1.LookupResult, error) {
	request := &planbv1.LookupRequest{Table: c.options.table, WantPrefix: true, WantNextHop: true,
		RequireComplete: c.options.complete}
	for i, address := range addresses {
		if err := checkAddress(i, address); err != nil {
			return nil, err
		}
		request.Addresses = append(request.Addresses,
			&planbv1.Address{Form: &planbv1.Address_Packed{Packed: address.AsSlice()}})
	}
	response, err := c.lookups.Lookup(ctx, request)
	if err != nil {
		return nil, c.failure(ctx, err)
	}
	return response.Results, nil
}

// Announce makes the next hop of each prefix the one given, all or none, and
// returns the generation in which they are, which lookups are then answered
// from. A prefix that is not valid, or has host bits set, is refused with an
// *Error, and nothing is sent.
func (c *Client) Announce(ctx context.Context, routes map[netip.Prefix]uint32) (uint64, error) {
	request := &planbv1.UpdateRoutesRequest{}
	for prefix, nextHop := range routes {
		if err := add(request, planbv1.RouteUpdate_OP_UPSERT, prefix, nextHop); err != nil {
			return 0, err
		}
	}
	return c.update(ctx, request)
}

// Withdraw removes routes, all or none; one that is absent is no error. It refuses
// the prefixes that Announce refuses.
func (c *Client) Withdraw(ctx context.Context, prefixes ...netip.Prefix) (uint64, error) {
	request := &planbv1.UpdateRoutesRequest{}
	for _, prefix := range prefixes {
		if err := add(request, planbv1.RouteUpdate_OP_DELETE, prefix, 0); err != nil {
			return 0, err
		}
	}
	return c.update(ctx, request)
}

// Adds an update of a prefix. One without a length (Bits() is -1) must not get
// another in its place: 0 would make it the default route.
func add(request *planbv1.UpdateRoutesRequest, op planbv1.RouteUpdate_Op, prefix netip.Prefix, nextHop uint32) error {
	why := ""
	switch address := prefix.Addr(); {
	case prefix.IsValid() && prefix == prefix.Masked():
		request.Updates = append(request.Updates, &planbv1.RouteUpdate{
			Op:        op,
			Prefix:    &planbv1.Prefix{Address: address.AsSlice(), Length: uint32(prefix.Bits())},
			NextHopId: nextHop,
		})
		return nil
	case prefix.IsValid():
		why = fmt.Sprintf("%s has host bits set", prefix)
	case address.IsValid():
		why = fmt.Sprintf("a netip.Prefix of %s has a length that is not in 0..%d", address, address.BitLen())
	default:
		why = "the zero netip.Prefix is not a prefix"
	}
	return invalid("UPDATE_INVALID", fmt.Sprintf("updates[%d].prefix", len(request.Updates)), why)
}

func (c *Client) update(ctx context.Context, request *planbv1.UpdateRoutesRequest) (uint64, error) {
	request.Table = c.options.table
	request.Ack = planbv1.Ack_ACK_VISIBLE
	response, err := c.tables.UpdateRoutes(ctx, request)
	if err != nil {
		return 0, c.failure(ctx, err)
	}
	return response.Generation, nil
}

// The error of a call that has ended. A server that drains cancels calls that come as it
// ends: it is away, and neither the context nor the client is at its end.
func (c *Client) failure(ctx context.Context, err error) error {
	err = fromStatus(err)
	if failure, ok := err.(*Error); ok && failure.Code == codes.Canceled && ctx.Err() == nil &&
		c.connection.GetState() != connectivity.Shutdown {
		failure.Code = codes.Unavailable
	}
	return err
}

// Table returns the state of the table.
func (c *Client) Table(ctx context.Context) (*planbv1.Table, error) {
	table, err := c.tables.GetTable(ctx, &planbv1.GetTableRequest{Table: c.options.table})
	return table, c.failure(ctx, err)
}

// Tables returns the stub for all other calls on tables.
func (c *Client) Tables() planbv1.RouteTableClient { return c.tables }

var _ io.Closer = (*Client)(nil)
