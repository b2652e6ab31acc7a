// SPDX-License-Identifier: Apache-2.0

package planb

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"planb.dev/lookup/client/go/planbv1"
)

// A real server on a Unix socket, with its store in a folder of the test.
type server struct {
	t       testing.TB
	folder  string
	store   string
	command *exec.Cmd
}

func start(t testing.TB) *server {
	binary := os.Getenv("PLANB_SERVER_BINARY")
	if binary == "" {
		t.Skip("PLANB_SERVER_BINARY does not name a planb_server")
	}
	s := &server{t: t, folder: t.TempDir()}
	s.store = filepath.Join(s.folder, "store")
	s.run()
	t.Cleanup(s.kill)
	return s
}

func (s *server) target() string { return "unix://" + filepath.Join(s.folder, "socket") }

func (s *server) run() {
	s.command = exec.Command(os.Getenv("PLANB_SERVER_BINARY"), "--listen="+s.target(),
		"--metrics_address=", "--max_generation_wait=1m", "--store="+s.store)
	s.command.Stderr = os.Stderr
	if err := s.command.Start(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) kill() {
	_ = s.command.Process.Kill()
	_ = s.command.Wait()
}

// check ends the test if there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func connect(t testing.TB, s *server, options ...Option) *Client {
	client, err := Dial(s.target(), options...)
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	deadline := time.Now().Add(30 * time.Second)
	for {
		if _, err = client.Table(context.Background()); err == nil {
			return client
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Example calls the server that PLANB_SERVER names. Without a binary of the
// server it is left out.
func TestMain(m *testing.M) {
	flag.Parse()
	binary := os.Getenv("PLANB_SERVER_BINARY")
	if binary == "" {
		_ = flag.Set("test.skip", "^Example")
		os.Exit(m.Run())
	}
	os.Exit(runBesideServer(binary, m))
}

func runBesideServer(binary string, m *testing.M) int {
	folder, err := os.MkdirTemp("", "planb_example")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	s := &server{folder: folder}
	command := exec.Command(binary, "--listen="+s.target(), "--metrics_address=", "--store=none")
	if err := command.Start(); err != nil {
		panic(err)
	}
	defer func() { _ = command.Process.Kill(); _ = command.Wait() }()
	_ = os.Setenv("PLANB_SERVER", s.target())
	client, err := Dial(s.target())
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close() }()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err = client.Table(context.Background()); err == nil {
			return m.Run()
		}
		if time.Now().After(end) {
			panic(err)
		}
	}
}

// Nested prefixes of both families, and what they lead to.
func routes() map[netip.Prefix]uint32 {
	all := map[netip.Prefix]uint32{}
	for i := range 200 {
		all[netip.MustParsePrefix(fmt.Sprintf("2001:db8:%x::/48", i))] = uint32(1000 + i)
		all[netip.MustParsePrefix(fmt.Sprintf("2001:db8:%x:8000::/49", i))] = uint32(2000 + i)
		all[netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", i))] = uint32(3000 + i)
		all[netip.MustParsePrefix(fmt.Sprintf("10.%d.7.0/24", i))] = uint32(4000 + i)
	}
	all[netip.MustParsePrefix("::/0")] = 1
	all[netip.MustParsePrefix("::ffff:0:0/96")] = 2
	all[netip.MustParsePrefix("10.0.0.0/8")] = 3
	return all
}

// Longest match by comparing every prefix.
func longest(table map[netip.Prefix]uint32, address netip.Addr) uint32 {
	bits, nextHop := -1, uint32(0)
	for prefix, id := range table {
		if prefix.Contains(address) && prefix.Bits() > bits {
			bits, nextHop = prefix.Bits(), id
		}
	}
	return nextHop
}

func addresses(random *rand.Rand, count int) []netip.Addr {
	all := make([]netip.Addr, count)
	for i := range all {
		switch random.IntN(4) {
		case 0:
			all[i] = netip.AddrFrom4([4]byte{byte(9 + random.IntN(3)), byte(random.IntN(210)), byte(random.IntN(9)), 1})
		case 1:
			all[i] = netip.MustParseAddr(fmt.Sprintf("::ffff:10.%d.7.1", random.IntN(210)))
		default:
			bytes := [16]byte{0x20, 0x01, 0x0d, 0xb8, 0, byte(random.IntN(210)), byte(random.IntN(256))}
			all[i] = netip.AddrFrom16(bytes)
		}
	}
	return all
}

func TestLookupFindsTheLongestMatchOfBothFamilies(t *testing.T) {
	client := connect(t, start(t))
	table := routes()
	generation, err := client.Announce(t.Context(), table)
	if err != nil || generation == 0 {
		t.Fatal(generation, err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, count := range []int{0, 1, 2, 1000, lookupBatch, lookupBatch + 1, 50_000} {
		probes := addresses(random, count)
		answers, err := client.Lookup(t.Context(), probes)
		if err != nil || len(answers) != count {
			t.Fatal(len(answers), err)
		}
		for i := 0; i < count; i += 1 + count/2000 {
			if want := longest(table, probes[i]); answers[i] != want {
				t.Fatalf("%s: %d, not %d", probes[i], answers[i], want)
			}
		}
	}
}

func TestConcurrentCallsGetTheirOwnAnswers(t *testing.T) {
	client := connect(t, start(t))
	table := routes()
	if _, err := client.Announce(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	for g := range 8 {
		go func() {
			random := rand.New(rand.NewPCG(3, uint64(g)))
			for range 50 {
				probes := addresses(random, random.IntN(100))
				answers, err := client.Lookup(t.Context(), probes)
				for i := 0; err == nil && i < len(probes); i++ {
					if answers[i] != longest(table, probes[i]) {
						err = fmt.Errorf("%s: %d", probes[i], answers[i])
					}
				}
				if err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range 8 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

func TestWithdrawnRoutesAndAttributes(t *testing.T) {
	client := connect(t, start(t))
	prefix := netip.MustParsePrefix("2001:db8::/32")
	if _, err := client.Tables().UpdateRoutes(t.Context(), &planbv1.UpdateRoutesRequest{
		NextHops: []*planbv1.NextHop{{Id: 7, Label: "seven"}},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Announce(t.Context(), map[netip.Prefix]uint32{prefix: 7}); err != nil {
		t.Fatal(err)
	}
	probes := []netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("192.0.2.1")}
	results, err := client.Resolve(t.Context(), probes)
	if err != nil || results[0].NextHop.GetLabel() != "seven" ||
		results[0].Prefix.GetLength() != 32 || results[1].NextHopId != 0 {
		t.Fatal(results, err)
	}
	if _, err := client.Withdraw(t.Context(), prefix, prefix.Masked()); err == nil {
		t.Error("one prefix twice in a batch")
	}
	if _, err := client.Withdraw(t.Context(), prefix); err != nil {
		t.Fatal(err)
	}
	answers, err := client.Lookup(t.Context(), probes)
	if err != nil || !slices.Equal(answers, []uint32{0, 0}) {
		t.Error(answers, err)
	}
}

func TestErrorsNameCodeReasonAndField(t *testing.T) {
	s := start(t)
	client := connect(t, s)
	other := connect(t, s)
	other.options.table = "none"
	_, err := other.Lookup(t.Context(), []netip.Addr{netip.IPv6LinkLocalAllNodes()})
	var failure *Error
	if !errors.As(err, &failure) || failure.Code != codes.NotFound || failure.Reason != "TABLE_NOT_FOUND" {
		t.Error(err)
	}
	_, err = client.Announce(t.Context(), map[netip.Prefix]uint32{netip.MustParsePrefix("2001:db8::/32"): 0})
	if !errors.As(err, &failure) || failure.Code != codes.InvalidArgument ||
		!slices.Contains(failure.Fields, "updates[0].next_hop_id") ||
		strings.Count(err.Error(), "updates[0].next_hop_id") != 1 {
		t.Error(err)
	}
}

// No prefix: netip says that it has -1 bits, or that its masked form is another.
func invalidPrefixes() map[netip.Prefix]string {
	all := map[netip.Prefix]string{{}: "the zero netip.Prefix"}
	for _, text := range []string{"0.0.0.0", "::", "10.0.0.0", "2001:db8::", "::ffff:10.0.0.0"} {
		address := netip.MustParseAddr(text)
		for _, length := range []int{-1, address.BitLen() + 1, math.MinInt, math.MaxInt} {
			all[netip.PrefixFrom(address, length)] = text
		}
	}
	for _, text := range []string{"10.0.0.1/8", "0.0.0.1/0", "2001:db8::1/32", "::1/0", "::ffff:10.0.0.0/8", "::ffff:10.0.0.1/120"} {
		all[netip.MustParsePrefix(text)] = text
	}
	return all
}

func TestAPrefixThatIsNotValidIsRefusedAndChangesNothing(t *testing.T) {
	client := connect(t, start(t))
	defaults := map[netip.Prefix]uint32{netip.MustParsePrefix("0.0.0.0/0"): 1, netip.MustParsePrefix("::/0"): 2}
	generation, err := client.Announce(t.Context(), defaults)
	check(t, err)
	valid := netip.MustParsePrefix("192.0.2.0/24")
	for prefix, names := range invalidPrefixes() {
		_, announced := client.Announce(t.Context(), map[netip.Prefix]uint32{prefix: 9})
		_, withdrawn := client.Withdraw(t.Context(), valid, prefix)
		for field, err := range map[string]error{"updates[0].prefix": announced, "updates[1].prefix": withdrawn} {
			var failure *Error
			if !errors.As(err, &failure) || failure.Code != codes.InvalidArgument || failure.Reason != "UPDATE_INVALID" ||
				!slices.Equal(failure.Fields, []string{field}) || !strings.Contains(failure.Message, names) {
				t.Errorf("%s: %v: %v", names, prefix, err)
			}
		}
	}
	table, err := client.Table(t.Context())
	if err != nil || table.AcceptedGeneration != generation {
		t.Error(table, err)
	}
	hops, err := client.Lookup(t.Context(), []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()})
	if err != nil || !slices.Equal(hops, []uint32{1, 2}) {
		t.Error(hops, err)
	}
}

func TestAMappedPrefixIsThePrefixOfIPv6ThatItIs(t *testing.T) {
	client := connect(t, start(t))
	prefix := netip.MustParsePrefix("::ffff:192.0.2.0/120")
	if _, err := client.Announce(t.Context(), map[netip.Prefix]uint32{prefix: 4}); err != nil {
		t.Fatal(err)
	}
	hops, err := client.Lookup(t.Context(), []netip.Addr{
		netip.MustParseAddr("::ffff:192.0.2.1"), netip.MustParseAddr("192.0.2.1")})
	if err != nil || !slices.Equal(hops, []uint32{4, 0}) {
		t.Error(hops, err)
	}
	if _, err := client.Withdraw(t.Context(), prefix); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNoAddressIsRefusedByItsIndex(t *testing.T) {
	client, err := Dial("unix:///nowhere") // Nothing is sent.
	check(t, err)
	defer client.Close()
	right := netip.MustParseAddr("192.0.2.1")
	for wrong, names := range map[netip.Addr]string{
		{}: "zero", netip.MustParseAddr("fe80::1%eth0"): "fe80::1%eth0", netip.MustParseAddr("::ffff:1.2.3.4%0"): "%0",
	} {
		addresses := []netip.Addr{right, wrong}
		_, looked := client.Lookup(t.Context(), addresses)
		_, resolved := client.Resolve(t.Context(), addresses)
		for _, err := range []error{looked, resolved} {
			var failure *Error
			if !errors.As(err, &failure) || failure.Reason != "ADDRESS_INVALID" ||
				!slices.Equal(failure.Fields, []string{"addresses[1]"}) || !strings.Contains(failure.Message, names) {
				t.Errorf("%v: %v", wrong, err)
			}
		}
	}
}

func TestTargetsWithoutAPortAreRefused(t *testing.T) {
	for _, wrong := range []string{"", "localhost", "localhost:", "localhost:http", "[::1]:0", "[::1]:65536",
		"::1:50051", "[::1]", "http://localhost:1", "/run/planb.sock"} {
		if client, err := Dial(wrong); err == nil {
			_ = client.Close()
			t.Errorf("%q is taken", wrong)
		}
	}
	for _, right := range []string{"localhost:1", "[::1]:65535", "unix:/nowhere", "unix-abstract:name", "dns:///localhost:1"} {
		client, err := Dial(right)
		if err != nil {
			t.Error(err)
			continue
		}
		_ = client.Close()
	}
}

func TestNumbersOutOfRangeAreRefused(t *testing.T) {
	for _, wrong := range []Option{WithInFlight(0), WithInFlight(-1), WithPatience(-1)} {
		if client, err := Dial("unix:///nowhere", wrong); err == nil {
			_ = client.Close()
			t.Error("is taken")
		}
	}
	client := connect(t, start(t))
	stream := client.NewStream(t.Context())
	defer stream.Close()
	for _, wait := range []time.Duration{-1, -time.Second, math.MinInt64} {
		if err := stream.Send(&Batch{V4: make([]byte, 4), MaxWait: wait}); ReasonOf(err) != "MAX_WAIT_INVALID" {
			t.Error(wait, err)
		}
	}
	if err := stream.Send(&Batch{V4: make([]byte, 4), Table: "\xff"}); ReasonOf(err) != "TABLE_NAME_INVALID" {
		t.Error(err)
	}
	check(t, stream.Send(&Batch{V4: make([]byte, 4)}))
	if result, err := stream.Receive(); err != nil || result.Err != nil {
		t.Error(result, err)
	}
}

func TestAStreamKeepsOrderAndGoesOnAfterARefusedBatch(t *testing.T) {
	client := connect(t, start(t))
	generation, err := client.Announce(t.Context(), routes())
	check(t, err)
	stream := client.NewStream(t.Context())
	defer stream.Close()
	go func() {
		for i := range 100 {
			v4 := []byte{10, byte(i), 7, 1}
			if i%10 == 3 {
				v4 = v4[:3]
			}
			if stream.Send(&Batch{V4: v4, MinGeneration: generation, WantPrefixLengths: i%2 == 0}) != nil {
				return
			}
		}
		stream.CloseSend()
	}()
	for i := range 100 {
		result, err := stream.Receive()
		check(t, err)
		if i%10 == 3 {
			if ReasonOf(result.Err) != "ADDRESSES_LENGTH" {
				t.Error(i, result.Err)
			}
			continue
		}
		if result.Err != nil || result.Generation < generation || !slices.Equal(result.NextHops, []uint32{uint32(4000 + i)}) {
			t.Error(i, result)
		}
		if i%2 == 0 && !slices.Equal(result.PrefixLengths, []byte{24}) {
			t.Error(i, result.PrefixLengths)
		}
	}
	if _, err := stream.Receive(); err != io.EOF {
		t.Error(err)
	}
}

func TestAllFormsOfAddressesAreAnsweredInOrder(t *testing.T) {
	client := connect(t, start(t))
	table := routes()
	table[netip.MustParsePrefix("2001:db8:0:1::/65")] = 5
	if _, err := client.Announce(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	stream := client.NewStream(t.Context())
	defer stream.Close()
	upper := func(text string) []byte {
		bytes := netip.MustParseAddr(text).As16()
		return bytes[:8]
	}
	v6 := netip.MustParseAddr("2001:db8:1:8000::1").As16()
	if err := stream.Send(&Batch{
		V6:          v6[:],
		V4:          []byte{10, 1, 7, 9, 10, 1, 8, 9},
		UpperHalves: append(upper("2001:db8:2::"), upper("2001:db8:0:1::")...),
		FlowHashes:  binary.LittleEndian.AppendUint32(make([]byte, 16), 9),
	}); err != nil {
		t.Fatal(err)
	}
	result, err := stream.Receive()
	if err != nil || result.Err != nil ||
		!slices.Equal(result.NextHops, []uint32{2001, 4001, 3001, 1002, Undecided}) {
		t.Error(result, err)
	}
}

func TestBatchesInFlightSurviveRestartsOfTheServer(t *testing.T) {
	s := start(t)
	client := connect(t, s, WithInFlight(8), WithPatience(30*time.Second))
	if _, err := client.Announce(t.Context(), routes()); err != nil {
		t.Fatal(err)
	}
	stream := client.NewStream(t.Context())
	defer stream.Close()
	const batches = 3000
	go func() {
		for i := range batches {
			if stream.Send(&Batch{V4: []byte{10, byte(i % 200), 7, 1}}) != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
		stream.CloseSend()
	}()
	for i := range batches {
		if i == 500 || i == 1500 || i == 2500 {
			s.kill()
			s.run()
		}
		result, err := stream.Receive()
		if err != nil || !slices.Equal(result.NextHops, []uint32{uint32(4000 + i%200)}) {
			t.Fatal(i, result, err)
		}
	}
}

func TestTimeWithoutABatchIsNoLossOfPatience(t *testing.T) {
	s := start(t)
	const patience = 100 * time.Millisecond
	client := connect(t, s)
	if _, err := client.Announce(t.Context(), routes()); err != nil {
		t.Fatal(err)
	}
	// On a busy machine a lookup may take all of its own time.
	var err error
	for range 3 {
		if err = lookAfterAPause(t, s, patience); err == nil {
			return
		}
	}
	t.Error(err)
}

// Looks up, and again in a server that was started anew during a long pause.
func lookAfterAPause(t *testing.T, s *server, patience time.Duration) error {
	stream := connect(t, s, WithPatience(patience)).NewStream(t.Context())
	defer stream.Close()
	received := make(chan error, 3)
	go func() {
		for {
			result, err := stream.Receive()
			if err == nil && !slices.Equal(result.NextHops, []uint32{4001}) {
				err = fmt.Errorf("%v", result)
			}
			received <- err
			if err != nil {
				return
			}
		}
	}()
	for i := range 2 {
		if i == 1 {
			time.Sleep(3 * patience) // Receive waits for a batch meanwhile.
			s.kill()
			s.run()
			connect(t, s) // The server is there again.
		}
		if err := stream.Send(&Batch{V4: []byte{10, 1, 7, 1}}); err != nil {
			return err
		}
		if err := <-received; err != nil {
			return err
		}
	}
	return nil
}

func TestABatchThatWaitsSurvivesTheDrainOfTheServer(t *testing.T) {
	s := start(t)
	client := connect(t, s, WithPatience(30*time.Second))
	generation, err := client.Announce(t.Context(), routes())
	check(t, err)
	stream := client.NewStream(t.Context())
	defer stream.Close()
	check(t, stream.Send(&Batch{V4: []byte{10, 1, 7, 1}, MinGeneration: generation + 1, MaxWait: time.Minute}))
	time.Sleep(100 * time.Millisecond) // It is in the server, most likely.
	check(t, s.command.Process.Signal(syscall.SIGTERM))
	announced := make(chan error)
	go func() {
		_ = s.command.Wait()
		s.run()
		_, err := connect(t, s).Announce(t.Context(), map[netip.Prefix]uint32{netip.MustParsePrefix("10.1.7.0/24"): 9})
		announced <- err
	}()
	result, err := stream.Receive()
	if err != nil || result.Err != nil || !slices.Equal(result.NextHops, []uint32{9}) || result.Generation <= generation {
		t.Error(result, err)
	}
	if err := <-announced; err != nil {
		t.Error(err)
	}
}

// Passes connections on to a server, and bytes until it is cut: then the peers of
// the connections that there are hear nothing, not even an end.
type cable struct {
	net.Listener
	mu  sync.Mutex
	cut *atomic.Bool // of new connections
}

func (c *cable) pass(t *testing.T, path string) {
	for {
		outer, err := c.Accept()
		if err != nil {
			return
		}
		inner, err := net.Dial("unix", path)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = outer.Close(); _ = inner.Close() })
		c.mu.Lock()
		cut := c.cut
		c.mu.Unlock()
		for _, way := range [][2]net.Conn{{outer, inner}, {inner, outer}} {
			go func() {
				buffer := make([]byte, 1<<16)
				for {
					n, err := way[0].Read(buffer)
					if !cut.Load() {
						_, _ = way[1].Write(buffer[:n])
					}
					if err != nil {
						if !cut.Load() {
							_ = way[1].Close()
						}
						return
					}
				}
			}()
		}
	}
}

func TestAServerThatFallsSilentIsLost(t *testing.T) {
	if testing.Short() {
		t.Skip("waits half a minute for a ping's answer")
	}
	s := start(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer listener.Close()
	line := &cable{Listener: listener, cut: new(atomic.Bool)}
	go line.pass(t, filepath.Join(s.folder, "socket"))
	connect(t, s)
	client, err := Dial(listener.Addr().String())
	check(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	probe := []netip.Addr{netip.IPv6Unspecified()}
	for range 2 {
		if _, err := client.Lookup(ctx, probe); err != nil {
			t.Fatal(err)
		}
		line.mu.Lock()
		line.cut.Store(true)
		line.cut = new(atomic.Bool)
		line.mu.Unlock()
	}
}

// A server of lookups: the first stream gets the replies of `first` and ends
// with its error, if that is not nil. Later streams get the number of the stream
// as the next hop of each batch.
type fake struct {
	planbv1.UnimplementedRouteLookupServer
	first func(*planbv1.BatchLookupRequest) (*planbv1.BatchLookupResponse, error)
	hold  chan struct{} // until it is closed, no batch is answered; nil: all are
	open  atomic.Int64  // streams

	tables planbv1.RouteTableServer

	mu      sync.Mutex
	streams []time.Time // when they began
}

func (f *fake) BatchLookup(stream grpc.BidiStreamingServer[planbv1.BatchLookupRequest, planbv1.BatchLookupResponse]) error {
	f.mu.Lock()
	f.streams = append(f.streams, time.Now())
	number := len(f.streams)
	f.mu.Unlock()
	f.open.Add(1)
	defer f.open.Add(-1)
	for {
		request, err := stream.Recv()
		if err != nil {
			return nil
		}
		if f.hold != nil {
			<-f.hold
		}
		response := &planbv1.BatchLookupResponse{NextHops: []byte{byte(number), 0, 0, 0}}
		if number == 1 && f.first != nil {
			if response, err = f.first(request); response == nil {
				return err
			}
		}
		response.RequestId = request.RequestId
		if err := stream.Send(response); err != nil {
			return err
		}
	}
}

func serve(t *testing.T, f *fake, options ...Option) *Client {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	check(t, err)
	server := grpc.NewServer()
	planbv1.RegisterRouteLookupServer(server, f)
	if f.tables != nil {
		planbv1.RegisterRouteTableServer(server, f.tables)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	client, err := Dial("unix://"+listener.Addr().String(), options...)
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func ends(err error) func(*planbv1.BatchLookupRequest) (*planbv1.BatchLookupResponse, error) {
	return func(*planbv1.BatchLookupRequest) (*planbv1.BatchLookupResponse, error) { return nil, err }
}

func tooManyStreams(t *testing.T, delay time.Duration) error {
	s, err := status.New(codes.ResourceExhausted, "too many streams").WithDetails(
		&errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
	check(t, err)
	return s.Err()
}

func TestUnansweredBatchesAreSentAgainHoweverTheServerGoesAway(t *testing.T) {
	const pause = 300 * time.Millisecond
	for name, first := range map[string]func(*planbv1.BatchLookupRequest) (*planbv1.BatchLookupResponse, error){
		"in band": func(r *planbv1.BatchLookupRequest) (*planbv1.BatchLookupResponse, error) {
			if r.RequestId > 1 { // of a batch that did not wait
				return &planbv1.BatchLookupResponse{NextHops: make([]byte, 4)}, nil
			}
			return &planbv1.BatchLookupResponse{Error: &planbv1.BatchError{
				Code: int32(codes.Unavailable), Reason: "DRAINING"}}, nil
		},
		"draining":         ends(status.Error(codes.Unavailable, "draining")),
		"cancelled":        ends(status.Error(codes.Canceled, "the time to drain is over")),
		"too many streams": ends(tooManyStreams(t, pause)),
		"the end":          ends(nil),
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{first: first}
			stream := serve(t, f, WithPatience(time.Minute)).NewStream(t.Context())
			defer stream.Close()
			for range 2 {
				check(t, stream.Send(&Batch{V4: []byte{10, 1, 7, 1}}))
			}
			for range 2 {
				result, err := stream.Receive()
				if err != nil || result.Err != nil || !slices.Equal(result.NextHops, []uint32{2}) {
					t.Fatal(result, err)
				}
			}
			if waited := f.streams[1].Sub(f.streams[0]); name == "too many streams" && waited < pause {
				t.Errorf("another attempt after %v, not the %v that the server asks for", waited, pause)
			}
		})
	}
}

// Waits until f has so many streams open.
func (f *fake) await(t *testing.T, streams int64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); f.open.Load() != streams; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d streams are open, not %d", f.open.Load(), streams)
		}
	}
}

// More than one connection may have streams. Calls that are no lookups go on.
func TestAnyNumberOfLookupsAtOnceAreAnswered(t *testing.T) {
	client := connect(t, start(t))
	if _, err := client.Announce(t.Context(), routes()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const lookups = 1500
	ended := make(chan error, lookups)
	for range lookups {
		go func() {
			answers, err := client.Lookup(ctx, []netip.Addr{netip.MustParseAddr("10.1.7.1")})
			if err == nil && !slices.Equal(answers, []uint32{4001}) {
				err = fmt.Errorf("%v", answers)
			}
			ended <- err
		}()
	}
	for range lookups {
		check(t, <-ended)
	}
	if _, err := client.Table(ctx); err != nil {
		t.Error(err)
	}
}

func TestStreamsOfLookupsAreFewAndEndWhenIdle(t *testing.T) {
	f := &fake{hold: make(chan struct{})}
	client := serve(t, f)
	client.options.idle = 10 * time.Millisecond
	lookup := func(ctx context.Context) error {
		_, err := client.Lookup(ctx, []netip.Addr{netip.IPv6Unspecified()})
		return err
	}
	const lookups = 3 * lookupStreams
	ended := make(chan error, lookups)
	for range lookups {
		go func() { ended <- lookup(t.Context()) }()
	}
	f.await(t, lookupStreams)
	// One more waits, within its context.
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := lookup(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if open := f.open.Load(); open != lookupStreams {
		t.Errorf("%d streams are open", open)
	}
	close(f.hold)
	for range lookups {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	f.await(t, 0)
	if err := lookup(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTheStreamsOfAClientLeaveRoomForItsOtherCalls(t *testing.T) {
	client := connect(t, start(t))
	use := func(stream *Stream) error {
		if err := stream.Send(&Batch{V4: []byte{10, 1, 7, 1}}); err != nil {
			return err
		}
		_, err := stream.Receive()
		return err
	}
	streams := make([]*Stream, maxStreams)
	for i := range streams {
		streams[i] = client.NewStream(t.Context())
		check(t, use(streams[i]))
	}
	err := use(client.NewStream(t.Context()))
	var failure *Error
	if !errors.As(err, &failure) || failure.Code != codes.ResourceExhausted || failure.Reason != "TOO_MANY_STREAMS" {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := client.Table(ctx); err != nil {
		t.Error(err)
	}
	streams[0].CloseSend()
	if _, err := streams[0].Receive(); err != io.EOF {
		t.Error(err)
	}
	for { // The stream that was closed may not have ended yet.
		if err = use(client.NewStream(t.Context())); ReasonOf(err) != "TOO_MANY_STREAMS" {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestAStreamEndsWithARefusal(t *testing.T) {
	client := serve(t, &fake{first: ends(status.Error(codes.ResourceExhausted, "too large"))})
	_, err := client.Lookup(t.Context(), []netip.Addr{netip.IPv6Unspecified()})
	var failure *Error
	if !errors.As(err, &failure) || failure.Code != codes.ResourceExhausted {
		t.Error(err)
	}
}

func TestClosingTheClientEndsWhatIsInFlight(t *testing.T) {
	began := make(chan bool)
	client := serve(t, &fake{first: func(*planbv1.BatchLookupRequest) (*planbv1.BatchLookupResponse, error) {
		close(began)
		<-t.Context().Done()
		return nil, nil
	}}, WithPatience(time.Hour))
	stream := client.NewStream(t.Context())
	check(t, stream.Send(&Batch{V4: []byte{10, 1, 7, 1}}))
	<-began
	_ = client.Close()
	if result, err := stream.Receive(); !errors.Is(err, context.Canceled) {
		t.Error(result, err)
	}
}

func TestAStreamGivesUpAServerThatStaysAway(t *testing.T) {
	s := start(t)
	client := connect(t, s, WithPatience(200*time.Millisecond))
	s.kill()
	_, err := client.Lookup(t.Context(), []netip.Addr{netip.IPv6Unspecified()})
	var failure *Error
	if !errors.As(err, &failure) || !failure.Temporary() {
		t.Error(err)
	}
}

func TestTheEndOfAClientEndsWhatWaits(t *testing.T) {
	s := start(t)
	client := connect(t, s)
	directory := followNextHops(t, client)
	closed := followNextHops(t, client)
	stream, full := client.NewStream(t.Context()), client.NewStream(t.Context())
	ended := make(chan error)
	for _, wait := range []func() error{
		func() error { _, err := stream.Receive(); return err },
		func() error {
			for {
				if err := full.Send(&Batch{V6: make([]byte, 16)}); err != nil {
					return err
				}
			}
		},
		func() error { return directory.Wait(t.Context(), 1<<62) },
		func() error { return closed.Wait(t.Context(), 1<<62) },
	} {
		go func() { ended <- wait() }()
	}
	time.Sleep(100 * time.Millisecond)
	closed.Close()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "the directory is closed") {
		t.Error(err)
	}
	s.kill()
	go func() { _, err := client.FollowNextHops(t.Context()); ended <- err }()
	time.Sleep(100 * time.Millisecond)
	check(t, client.Close())
	for range 4 {
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "the client is closed") {
			t.Error(err)
		}
	}
}

func TestAnEndedContextSaysWhatTheAttemptsMet(t *testing.T) {
	s := start(t)
	client := connect(t, s)
	s.kill()
	// Again if a busy machine has not tried in this time.
	var failure *Error
	for times := 0; times < 10 && failure == nil; times++ {
		short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := client.Lookup(short, []netip.Addr{netip.IPv6Unspecified()})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		errors.As(err, &failure)
	}
	if failure == nil || failure.Code != codes.Unavailable {
		t.Error(failure)
	}
}

func TestLookupsWaitUntilTheTableIsComplete(t *testing.T) {
	s := start(t)
	client := connect(t, s, WithRequireComplete(), WithPatience(200*time.Millisecond))
	addresses := []netip.Addr{netip.IPv6Unspecified()}
	_, err := client.Lookup(t.Context(), addresses)
	// Again if a busy machine needed that time for the first answer.
	for times := 0; times < 2 && ReasonOf(err) == ""; times++ {
		_, err = client.Lookup(t.Context(), addresses)
	}
	if ReasonOf(err) != "TABLE_NOT_COMPLETE" {
		t.Error(err)
	}
	_, err = client.Resolve(t.Context(), addresses)
	var failure *Error
	if !errors.As(err, &failure) || failure.Reason != "TABLE_NOT_COMPLETE" || failure.RetryAfter != time.Second {
		t.Error(err)
	}
	patient := connect(t, s, WithRequireComplete(), WithPatience(30*time.Second))
	said := make(chan error, 1)
	go func() {
		time.Sleep(100 * time.Millisecond)
		_, err := client.Tables().UpdateRoutes(t.Context(), &planbv1.UpdateRoutesRequest{Complete: proto.Bool(true)})
		said <- err
	}()
	if _, err := patient.Lookup(t.Context(), addresses); err != nil {
		t.Error(err)
	}
	if err := <-said; err != nil {
		t.Error(err)
	}
	if _, err := client.Resolve(t.Context(), addresses); err != nil {
		t.Error(err)
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	client := connect(t, start(t))
	ctx, cancel := context.WithCancel(t.Context())
	stream := client.NewStream(ctx)
	// Nothing is in flight: Receive waits.
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := stream.Receive(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := stream.Send(&Batch{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := client.Lookup(ctx, []netip.Addr{netip.IPv6Unspecified()}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// A generation that does not come.
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	stream = client.NewStream(short)
	check(t, stream.Send(&Batch{V4: []byte{1, 2, 3, 4}, MinGeneration: 1 << 40, MaxWait: time.Minute}))
	if result, err := stream.Receive(); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(result, err)
	}
	// A call outside a stream.
	short, stop = context.WithTimeout(t.Context(), time.Microsecond)
	defer stop()
	if _, err := client.Table(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestLookupEndsWithItsContextWhileItConnects(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer silent.Close()
	client, err := Dial(silent.Addr().String(), WithDialOptions(
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Hour})))
	check(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := client.Lookup(ctx, []netip.Addr{netip.IPv6Unspecified()})
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Lookup waits for a connection, without its context")
	}
}

func TestAnErrorIsTheContextErrorOfItsCode(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		err := fmt.Errorf("wrapped: %w", fromStatus(status.Error(code, "by the server")))
		if errors.Is(err, context.Canceled) != (code == codes.Canceled) ||
			errors.Is(err, context.DeadlineExceeded) != (code == codes.DeadlineExceeded) {
			t.Error(err)
		}
	}
}

func TestEveryMaxWaitReachesTheServerWithinItsRange(t *testing.T) {
	for wait, want := range map[time.Duration]uint32{
		0: 0, time.Second: 1000, math.MaxInt64: math.MaxUint32,
		time.Millisecond * math.MaxUint32: math.MaxUint32, time.Millisecond * (math.MaxUint32 + 1): math.MaxUint32,
	} {
		message, err := batchCodec{}.Marshal(&request{1, Batch{V4: make([]byte, 4), MaxWait: wait}})
		check(t, err)
		var read planbv1.BatchLookupRequest
		if err := proto.Unmarshal(message.Materialize(), &read); err != nil || read.MaxWaitMs != want {
			t.Errorf("%v is sent as %d ms, %v", wait, read.MaxWaitMs, err)
		}
	}
}

func TestAReplyWithAPartOfANextHopIsRefused(t *testing.T) {
	for size := range 9 {
		message, err := proto.Marshal(&planbv1.BatchLookupResponse{NextHops: make([]byte, size)})
		check(t, err)
		var answer reply
		err = batchCodec{}.Unmarshal(mem.BufferSlice{mem.SliceBuffer(message)}, &answer)
		if (err == nil) != (size%4 == 0) || err == nil && len(answer.result.NextHops) != size/4 {
			t.Errorf("%d bytes of next hops are read as %v, %v", size, answer.result.NextHops, err)
		}
	}
}

func TestAReplyWithAnotherNumberOfAnswersEndsTheStream(t *testing.T) {
	for _, each := range []struct {
		hops, lengths int
		want, ok      bool // prefix lengths; a reply
	}{
		{8, 0, false, true}, {8, 2, true, true}, {0, 0, false, false}, {4, 0, false, false}, {12, 0, false, false},
		{8, 0, true, false}, {8, 1, true, false}, {8, 3, true, false},
	} {
		stream := serve(t, &fake{first: func(*planbv1.BatchLookupRequest) (*planbv1.BatchLookupResponse, error) {
			return &planbv1.BatchLookupResponse{
				NextHops: make([]byte, each.hops), PrefixLengths: make([]byte, each.lengths)}, nil
		}}).NewStream(t.Context())
		check(t, stream.Send(&Batch{V6: make([]byte, 16), V4: make([]byte, 4), WantPrefixLengths: each.want}))
		if result, err := stream.Receive(); (err == nil) != each.ok {
			t.Errorf("%+v for two addresses: %v, %v", each, result, err)
		}
		stream.Close()
	}
}

// Ends calls as a server does that is about to end.
type ending struct {
	planbv1.UnimplementedRouteTableServer
}

func (*ending) GetTable(context.Context, *planbv1.GetTableRequest) (*planbv1.Table, error) {
	return nil, status.Error(codes.Canceled, "CANCELLED")
}

func (*ending) UpdateRoutes(context.Context, *planbv1.UpdateRoutesRequest) (*planbv1.UpdateRoutesResponse, error) {
	return nil, status.Error(codes.Canceled, "CANCELLED")
}

func TestACallThatTheServerCancelsIsNotOneOfAContextThatEnded(t *testing.T) {
	client := serve(t, &fake{tables: &ending{}})
	_, unread := client.Table(t.Context())
	_, unchanged := client.Announce(t.Context(), routes())
	for _, err := range []error{unread, unchanged} {
		var failure *Error
		if errors.Is(err, context.Canceled) || !errors.As(err, &failure) || !failure.Temporary() {
			t.Errorf("%v of a context that goes on", err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := client.Table(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("%v of a context that ended", err)
	}
	_ = client.Close()
	if _, err := client.Table(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v of a closed client", err)
	}
}
