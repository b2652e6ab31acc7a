// SPDX-License-Identifier: Apache-2.0

package bgp

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/config/oc"
	"github.com/osrg/gobgp/v4/pkg/packet/bfd"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"planb.dev/lookup/client/go/planbv1"
	"planb.dev/lookup/feed/bgp/bgptest"
	"planb.dev/lookup/feed/bgproute"
	"planb.dev/lookup/feed/rib"
	"planb.dev/lookup/feed/source"
	"planb.dev/lookup/feed/source/sourcetest"
)

func TestMain(m *testing.M) { bgptest.Main(m) }

func lines(count int) []string {
	result := []string{"add 192.0.2.0/24 198.51.100.1"}
	for i := range count {
		result = append(result, fmt.Sprintf("add 2001:db8:%x::/48 2001:db8:ffff::1", i))
	}
	return result
}

// listen runs the source for passive neighbours, and returns its port.
func listen(t *testing.T, sink *sourcetest.Sink, more, section string, neighbors ...string) int {
	bgptest.SkipUnderRaceDetector(t)
	port := bgptest.FreePort(t, "127.0.0.1")
	content := bgptest.Global(65001, "127.0.0.1", port) + more
	for _, address := range neighbors {
		as := 65000 + int(netip.MustParseAddr(address).As4()[3])
		content += bgptest.Neighbor("127.0.0.1", address, as, 0, true, true)
	}
	sourcetest.Run(t, New, "file: "+bgptest.Write(t, "gobgp.toml", content)+"\n"+section, sink)
	return port
}

func await(t *testing.T, sink *sourcetest.Sink, peer, state string) {
	t.Helper()
	sourcetest.Eventually(t, peer+" is "+state, func() bool { return sink.State(peer) == state })
}

func TestAPeerIsFollowed(t *testing.T) {
	t.Parallel()
	sink := sourcetest.NewSink()
	began := time.Now()
	port := listen(t, sink, "", "", "127.0.0.2")
	peer := bgptest.Start(t, "127.0.0.2", port, true, lines(10)...)
	await(t, sink, "127.0.0.2", "complete")
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the session took %v", took)
	}
	if sink.Len() != 11 || sink.Text("192.0.2.0/24") != "198.51.100.1" || sink.Text("2001:db8:1::/48") != "2001:db8:ffff::1" {
		t.Errorf("%d routes; %q, %q", sink.Len(), sink.Text("192.0.2.0/24"), sink.Text("2001:db8:1::/48"))
	}
	peer.Say(t, "add 2001:db8:1::/48 2001:db8:ffff::2", "del 2001:db8:2::/48 2001:db8:ffff::1")
	sourcetest.Eventually(t, "a change and an end", func() bool {
		return sink.Len() == 10 && sink.Text("2001:db8:1::/48") == "2001:db8:ffff::2"
	})
	if got := strings.Join(sink.Events(), ", "); got != "lost 127.0.0.2, begun local, complete local, begun 127.0.0.2, complete 127.0.0.2" {
		t.Error(got)
	}
}

// Without graceful restart GoBGP ends all paths, and says that the peer is gone only
// after that. With it, it keeps them, and is silent of what comes again as it was. Of a
// peer that names one family for it, both happen.
func TestAPeerThatIsKilledKeepsItsRoutes(t *testing.T) {
	t.Parallel()
	for i, restarts := range []string{"nothing", "both families", "IPv4 alone"} {
		t.Run("graceful restart of "+restarts, func(t *testing.T) {
			t.Parallel()
			address := fmt.Sprintf("127.0.0.%d", 3+i)
			sink := sourcetest.NewSink()
			port := listen(t, sink, "", "quiet: 300ms", address)
			neighbor := bgptest.Neighbor(address, "127.0.0.1", 65001, port, false, restarts != "nothing")
			if restarts == "IPv4 alone" {
				last := strings.LastIndex(neighbor, "enabled = true") // of IPv6
				neighbor = neighbor[:last] + "enabled = false\n"
			}
			start := func(lines []string) *bgptest.Speaker {
				return bgptest.Run(t, bgptest.Global(65003+i, address, -1)+neighbor, append(lines, "start")...)
			}
			peer := start(lines(20))
			await(t, sink, address, "complete")
			peer.Kill()
			await(t, sink, address, "lost")
			time.Sleep(200 * time.Millisecond)
			if sink.Len() != 21 || sink.Withdrawn() != 0 {
				t.Errorf("%d routes and %d withdrawals", sink.Len(), sink.Withdrawn())
			}
			start(lines(19))
			await(t, sink, address, "complete")
			sourcetest.Eventually(t, "one route went", func() bool { return sink.Len() == 20 })
			if sink.Withdrawn() != 1 {
				t.Errorf("%d withdrawals, not 1", sink.Withdrawn())
			}
		})
	}
}

// hasMD5 says that this kernel signs segments of TCP (RFC 2385).
func hasMD5(t *testing.T) bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	sourcetest.Check(t, err)
	defer unix.Close(fd)
	signature := &unix.TCPMD5Sig{Addr: unix.SockaddrStorage{Family: unix.AF_INET}, Keylen: 1}
	return unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, signature) == nil
}

// answerBFD is the other side of a BFD session with the source, until `stop`.
func answerBFD(t *testing.T, address string) (port int, isUp *atomic.Bool, stop func() error) {
	connection, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(address)})
	sourcetest.Check(t, err)
	t.Cleanup(func() { connection.Close() })
	isUp = new(atomic.Bool)
	go func() {
		for buffer := make([]byte, 100); ; {
			n, err := connection.Read(buffer)
			if err != nil {
				return
			}
			var theirs bfd.BFDHeader
			if theirs.UnmarshalBinary(buffer[:n]) != nil {
				continue
			}
			mine := bfd.BFDHeader{Version: 1, State: bfd.StateUp, DetectTimeMultiplier: 3, MyDiscriminator: 7,
				YourDiscriminator: theirs.MyDiscriminator, DesiredMinTxInterval: 100_000, RequiredMinRxInterval: 100_000}
			if theirs.State == bfd.StateDown {
				mine.State = bfd.StateInit
			}
			isUp.Store(theirs.State == bfd.StateUp)
			answer, _ := mine.MarshalBinary()
			connection.WriteToUDP(answer, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: server.BfdServerPort})
		}
	}()
	return connection.LocalAddr().(*net.UDPAddr).Port, isUp, connection.Close
}

// In a namespace, since BFD has one port.
func TestMD5BFDAndAnImportPolicyOfGoBGPsFileCount(t *testing.T) {
	bgptest.SkipUnderRaceDetector(t)
	if !sourcetest.InNamespace(t) {
		return
	}
	if !hasMD5(t) {
		t.Skip("skipped: the kernel has no TCP_MD5SIG")
	}
	const address = "127.0.0.2"
	bfdPort, isUp, stop := answerBFD(t, address)
	port := bgptest.FreePort(t, "127.0.0.1")
	signed := func(local, remote string, as, port int, passive bool) string {
		return strings.Replace(bgptest.Neighbor(local, remote, as, port, passive, true), "peer-as", "auth-password = \"secret\"\n    peer-as", 1)
	}
	file := bgptest.Global(65001, "127.0.0.1", port) + `
[global.apply-policy.config]
  import-policy-list = ["filter"]
  default-import-policy = "accept-route"
[[defined-sets.prefix-sets]]
  prefix-set-name = "not taken"
  [[defined-sets.prefix-sets.prefix-list]]
    ip-prefix = "2001:db8::/47"
    masklength-range = "47..128"
[[policy-definitions]]
  name = "filter"
  [[policy-definitions.statements]]
    [policy-definitions.statements.conditions.match-prefix-set]
      prefix-set = "not taken"
    [policy-definitions.statements.actions]
      route-disposition = "reject-route"
` + signed("127.0.0.1", address, 65002, 0, true) + fmt.Sprintf(`
  [neighbors.bfd.config]
    enabled = true
    port = %d
    desired-minimum-tx-interval = 100000
    required-minimum-receive = 100000
    detection-multiplier = 3
`, bfdPort)
	sink := sourcetest.NewSink()
	sourcetest.Run(t, New, "quiet: 300ms\nfile: "+bgptest.Write(t, "gobgp.toml", file), sink)
	bgptest.Run(t, bgptest.Global(65002, address, -1)+signed(address, "127.0.0.1", 65001, port, false), append(lines(4), "start")...)
	await(t, sink, address, "complete")
	if got := fmt.Sprint(sink.Prefixes()); got != "[192.0.2.0/24 2001:db8:2::/48 2001:db8:3::/48]" {
		t.Error(got)
	}
	sourcetest.Eventually(t, "BFD is up", isUp.Load)
	sourcetest.Check(t, stop()) // and BGP goes on
	sourcetest.Eventually(t, "the session is lost", func() bool {
		return strings.Count(strings.Join(sink.Events(), ", "), "lost "+address) == 2 // at first it was expected
	})
	if sink.Len() != 3 || sink.Withdrawn() != 0 {
		t.Errorf("%d routes and %d withdrawals", sink.Len(), sink.Withdrawn())
	}
}

func TestAPeerThatIsDeletedIsForgotten(t *testing.T) {
	t.Parallel()
	sink := sourcetest.NewSink()
	control := fmt.Sprintf("127.0.0.1:%d", bgptest.FreePort(t, "127.0.0.1"))
	port := listen(t, sink, "", "quiet: 300ms\ngrpc: "+control, "127.0.0.14", "127.0.0.15")
	bgptest.Start(t, "127.0.0.14", port, true, lines(10)...)
	bgptest.Start(t, "127.0.0.15", port, true, "add 2001:db8:ff::/48 2001:db8:ffff::1")
	await(t, sink, "127.0.0.14", "complete")
	await(t, sink, "127.0.0.15", "complete")
	connection, err := grpc.NewClient(control, grpc.WithTransportCredentials(insecure.NewCredentials()))
	sourcetest.Check(t, err)
	defer connection.Close()
	// As `gobgp neighbor 127.0.0.14 del` does.
	if _, err := api.NewGoBgpServiceClient(connection).DeletePeer(t.Context(), &api.DeletePeerRequest{Address: "127.0.0.14"}); err != nil {
		t.Fatal(err)
	}
	await(t, sink, "127.0.0.14", "forgotten")
	if got := fmt.Sprint(sink.Prefixes()); got != "[2001:db8:ff::/48]" {
		t.Error(got)
	}
}

// One that only went away keeps its routes, whether GoBGP keeps it or not.
func TestAPeerThatIsGoneForAReasonIsNotForgotten(t *testing.T) {
	for reason, c := range map[api.PeerState_DisconnectReason]struct {
		has   bool
		state string
		peers int
	}{
		api.PeerState_DISCONNECT_REASON_UNSPECIFIED:        {false, "forgotten", 0},
		api.PeerState_DISCONNECT_REASON_DECONFIGURED:       {true, "lost", 1},
		api.PeerState_DISCONNECT_REASON_HOLD_TIMER_EXPIRED: {false, "lost", 0}, // a dynamic neighbour
	} {
		w, sink := newTestWatch(t, false)
		w.hasPeer = func(netip.Addr) bool { return c.has }
		w.state(bgp.BGP_FSM_ESTABLISHED)
		w.take(announcements(1, false)...)
		event := &apiutil.WatchEventMessage_PeerEvent{Type: apiutil.PEER_EVENT_STATE}
		event.Peer.State.NeighborAddress = netip.MustParseAddr(graceful)
		event.Peer.State.SessionState = bgp.BGP_FSM_IDLE
		event.Peer.State.DisconnectReason = reason
		w.peerEvent(event)
		w.quiet.Wait()
		if got := sink.State(graceful); got != c.state || len(w.peers) != c.peers {
			t.Errorf("%v: %s, %d peers", reason, got, len(w.peers))
		}
	}
}

// GoBGP ends the paths that it kept when the restart time is over, which may be after the
// stale time.
func TestADynamicPeerIsLostOnceAndThenForgotten(t *testing.T) {
	made, _ := newTestWatch(t, false)
	now := time.Now()
	table := rib.New(rib.Options{Sources: []rib.SourceOptions{{Name: "bgp", StaleTime: time.Minute}}, FirstID: 1 << 24,
		Log: sourcetest.Options(t, "").Log, Now: func() time.Time { return now }})
	table.EndList()
	w := newWatch(made.s, table.Sink(0), &oc.BgpConfigSet{})
	t.Cleanup(w.stop)
	w.state(bgp.BGP_FSM_ESTABLISHED)
	w.take(announcements(1, false)...)
	w.state(bgp.BGP_FSM_IDLE)
	for _, lost := range []int{1, 0} {
		if s := table.Stats().Sources[0]; s.Lost != lost || s.Routes != lost {
			t.Errorf("%+v", s)
		}
		now = now.Add(time.Minute)
		table.Tick()
		w.dropped(announcements(1, true))
		w.take(announcements(1, true)...)
	}
}

// Not beside other tests: use-multiple-paths is a variable of GoBGP's package.
func TestPathsOfSeveralPeersAreOneRoute(t *testing.T) {
	sink := sourcetest.NewSink()
	port := listen(t, sink, "[global.use-multiple-paths.config]\n enabled = true\n", "quiet: 300ms", "127.0.0.12", "127.0.0.13")
	first := bgptest.Start(t, "127.0.0.12", port, true, "add 2001:db8::/32 2001:db8:ffff::1")
	second := bgptest.Start(t, "127.0.0.13", port, false, "add 2001:db8::/32 2001:db8:ffff::2")
	await(t, sink, "127.0.0.12", "complete")
	await(t, sink, "127.0.0.13", "complete")
	within := func(want string) {
		t.Helper()
		last := ""
		defer func() {
			if t.Failed() {
				t.Logf("last: %s", last)
			}
		}()
		sourcetest.Eventually(t, want, func() bool {
			last = sink.Text("2001:db8::/32")
			return last == want
		})
	}
	within("2001:db8:ffff::1 2001:db8:ffff::2")
	second.Kill()
	within("2001:db8:ffff::1")
	first.Kill()
	await(t, sink, "127.0.0.12", "lost")
	if sink.Withdrawn() != 0 {
		t.Errorf("%d withdrawals", sink.Withdrawn())
	}
}

// event makes an announcement.
func event(from, prefix, gateway string, id uint32, communities ...uint32) *apiutil.Path {
	nlri, _ := bgp.NewIPAddrPrefix(netip.MustParsePrefix(prefix))
	reach, err := bgp.NewPathAttributeMpReachNLRI(bgp.RF_IPv6_UC, []bgp.PathNLRI{{NLRI: nlri}}, netip.MustParseAddr(gateway))
	if err != nil {
		panic(err)
	}
	return &apiutil.Path{Family: bgp.RF_IPv6_UC, Nlri: nlri, PeerAddress: netip.MustParseAddr(from), RemoteID: id,
		Attrs: []bgp.PathAttributeInterface{reach, bgp.NewPathAttributeCommunities(communities)}}
}

func newTestWatch(t *testing.T, multipath bool) (*watch, *sourcetest.Sink) {
	file := bgptest.Write(t, "gobgp.toml", bgptest.Global(65001, "127.0.0.1", -1))
	s, err := New(sourcetest.Options(t, "quiet: 100ms\nfile: "+file))
	sourcetest.Check(t, err)
	sink := sourcetest.NewSink()
	set := &oc.BgpConfigSet{}
	set.Global.UseMultiplePaths.Config.Enabled = multipath
	w := newWatch(s.(*speaker), sink, set)
	t.Cleanup(w.stop)
	return w, sink
}

func (w *watch) take(paths ...*apiutil.Path) {
	w.best(paths)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
}

const graceful = "2001:db8::a" // the address of a peer

func (w *watch) state(state bgp.FSMState) {
	capabilities := []bgp.ParameterCapabilityInterface{bgp.NewCapMultiProtocol(bgp.RF_IPv6_UC),
		bgp.NewCapGracefulRestart(false, false, 120, nil)}
	event := &apiutil.WatchEventMessage_PeerEvent{Type: apiutil.PEER_EVENT_STATE}
	event.Peer.State.NeighborAddress = netip.MustParseAddr(graceful)
	event.Peer.State.SessionState = state
	event.Peer.State.LocalCap, event.Peer.State.RemoteCap = capabilities, capabilities
	w.peerEvent(event)
}

func announcements(count int, withdrawal bool) (paths []*apiutil.Path) {
	for i := range count {
		path := event(graceful, fmt.Sprintf("2001:db8:%x::/48", i), "2001:db8:ffff::1", 0)
		path.Withdrawal = withdrawal
		paths = append(paths, path)
	}
	return paths
}

func TestChangesOfALargeTableAreToldInSeveralCalls(t *testing.T) {
	w, sink := newTestWatch(t, false)
	w.state(bgp.BGP_FSM_ESTABLISHED)
	before := sink.Calls()
	w.take(announcements(2*source.MaxApply+1, false)...)
	if sink.Len() != 2*source.MaxApply+1 || sink.Calls()-before != 3 {
		t.Errorf("%d routes by %d calls", sink.Len(), sink.Calls()-before)
	}
	w.take(announcements(source.MaxApply+1, true)...)
	if sink.Len() != source.MaxApply || sink.Calls()-before != 5 {
		t.Errorf("%d routes are left after %d calls", sink.Len(), sink.Calls()-before)
	}
}

func TestAnEarlyEndOfRIBWithdrawsNothing(t *testing.T) {
	for _, kept := range []bool{false, true} {
		w, sink := newTestWatch(t, false)
		w.state(bgp.BGP_FSM_ESTABLISHED)
		w.take(announcements(20, false)...)
		w.endOfRIB(netip.MustParseAddr(graceful), bgp.RF_IPv6_UC)
		if sink.State(graceful) != "complete" {
			t.Fatalf("%s after all was told", sink.State(graceful))
		}
		if !kept { // GoBGP ends all paths before it says that the peer is gone
			w.dropped(announcements(1, true))
			w.take(announcements(20, true)...)
		}
		w.state(bgp.BGP_FSM_IDLE)
		w.state(bgp.BGP_FSM_ESTABLISHED)
		w.take(announcements(1, false)...)
		w.endOfRIB(netip.MustParseAddr(graceful), bgp.RF_IPv6_UC)
		if kept { // and here what was not repeated
			w.take(announcements(20, true)[1:]...)
		}
		time.Sleep(400 * time.Millisecond)
		if sink.Len() != 20 || sink.State(graceful) != "begun" {
			t.Errorf("kept %v: %d routes, %s", kept, sink.Len(), sink.State(graceful))
		}
		w.take(announcements(19, false)...)
		await(t, sink, graceful, "complete")
		if sink.Len() != 19 || sink.Withdrawn() != 1 {
			t.Errorf("kept %v: %d routes, %d withdrawals", kept, sink.Len(), sink.Withdrawn())
		}
	}
}

func TestAPeerThatLostMostRoutesIsBelievedInTheEnd(t *testing.T) {
	w, sink := newTestWatch(t, false)
	for _, count := range []int{20, 1} {
		w.state(bgp.BGP_FSM_IDLE)
		w.state(bgp.BGP_FSM_ESTABLISHED)
		w.take(announcements(count, false)...)
		w.endOfRIB(netip.MustParseAddr(graceful), bgp.RF_IPv6_UC)
	}
	w.take(announcements(20, true)[1:]...)
	if sink.Len() != 20 {
		t.Errorf("%d routes at once", sink.Len())
	}
	await(t, sink, graceful, "complete")
	if sink.Len() != 1 {
		t.Errorf("%d routes, not 1", sink.Len())
	}
}

func TestAPeerThatOwesItsEndOfRIBCompletes(t *testing.T) {
	w, sink := newTestWatch(t, false)
	w.state(bgp.BGP_FSM_ESTABLISHED)
	w.take(announcements(3, false)...)
	await(t, sink, graceful, "complete")
}

func TestALinkLocalNextHopIsOnThePeersInterface(t *testing.T) {
	w, sink := newTestWatch(t, false)
	w.take(event("fe80::1%eth7", "2001:db8::/32", "fe80::1", 0))
	if got := sink.Text("2001:db8::/32"); got != "fe80::1%eth7" {
		t.Error(got)
	}
	// A peer of a global address: the interface that it is reached by.
	if got := zone("", netip.MustParseAddr("127.0.0.9")); got != "lo" {
		t.Errorf("zone %q", got)
	}
}

func TestTheNextHopIsThatOfTheFamily(t *testing.T) {
	w, sink := newTestWatch(t, false)
	both := event("2001:db8::a", "2001:db8::/32", "2001:db8::1", 0)
	other, _ := bgp.NewPathAttributeNextHop(netip.MustParseAddr("192.0.2.1"))
	both.Attrs = append([]bgp.PathAttributeInterface{other}, both.Attrs...)
	w.take(both)
	if got := sink.Text("2001:db8::/32"); got != "2001:db8::1" {
		t.Error(got)
	}
	// Without one, a link-local peer is it, and another peer is refused.
	w.take(event("fe80::1%eth7", "2001:db8:1::/48", "::", 0), event("2001:db8::a", "2001:db8:2::/48", "::", 0),
		event("::", "2001:db8:3::/48", "::", 0))
	for prefix, want := range map[string]string{"2001:db8:1::/48": "fe80::1%eth7", "2001:db8:2::/48": "", "2001:db8:3::/48": "local"} {
		if got := sink.Text(prefix); got != want {
			t.Errorf("%s: %q, not %q", prefix, got, want)
		}
	}
}

func TestAStalePathDoesNotStandBesideAFreshOne(t *testing.T) {
	w, sink := newTestWatch(t, true)
	w.take(event("2001:db8::a", "2001:db8::/32", "2001:db8::1", 0, uint32(bgp.COMMUNITY_LLGR_STALE)))
	if got := sink.Text("2001:db8::/32"); got != "2001:db8::1" {
		t.Errorf("alone: %s", got)
	}
	w.take(event("2001:db8::b", "2001:db8::/32", "2001:db8::2", 0))
	if got := sink.Text("2001:db8::/32"); got != "2001:db8::2" {
		t.Errorf("beside a fresh one: %s", got)
	}
}

func TestPathsOfOnePeerDifferById(t *testing.T) {
	w, sink := newTestWatch(t, true)
	w.take(event("2001:db8::a", "2001:db8::/32", "2001:db8::1", 1), event("2001:db8::a", "2001:db8::/32", "2001:db8::2", 2))
	if got := sink.Text("2001:db8::/32"); got != "2001:db8::1 2001:db8::2" {
		t.Error(got)
	}
	end := event("2001:db8::a", "2001:db8::/32", "2001:db8::1", 1)
	end.Withdrawal = true
	// Ends come before new paths: between them the prefix has one path, and no hole.
	w.take(end, event("2001:db8::a", "2001:db8::/32", "2001:db8::3", 3))
	if got := sink.Text("2001:db8::/32"); got != "2001:db8::2 2001:db8::3" || sink.Withdrawn() != 0 {
		t.Errorf("%s, %d withdrawals", got, sink.Withdrawn())
	}
}

func TestAPrefixHasABoundedNumberOfPaths(t *testing.T) {
	w, sink := newTestWatch(t, true)
	path := func(i int) *apiutil.Path {
		return event("2001:db8::a", "2001:db8::/32", fmt.Sprintf("2001:db8:ffff::%x", i+1), uint32(i))
	}
	for i := range bgproute.MaxPaths + 2 {
		w.take(path(i))
	}
	if n := len(sink.Paths("2001:db8::/32")); n != bgproute.MaxPaths || testutil.ToFloat64(w.s.crowded) != 2 {
		t.Errorf("%d paths, %v left out", n, testutil.ToFloat64(w.s.crowded))
	}
	end := path(0)
	end.Withdrawal = true
	w.take(end, path(1), path(bgproute.MaxPaths+2))
	if n := len(sink.Paths("2001:db8::/32")); n != bgproute.MaxPaths {
		t.Errorf("%d paths", n)
	}
}

// serverWith is a table of a server that has routes, as of `announcements`.
func serverWith(t *testing.T, count int) *rib.Table {
	table := rib.New(rib.Options{Sources: []rib.SourceOptions{{Name: "bgp", StaleTime: time.Minute}}, FirstID: 1 << 24,
		Log: sourcetest.Options(t, "").Log})
	table.Disconnect()
	for _, path := range announcements(count, false) {
		prefix, _ := bgproute.Prefix(path.Family, path.Nlri)
		if err := table.ListRoutes([]*planbv1.Route{{NextHopId: 7, Prefix: &planbv1.Prefix{
			Address: prefix.Addr().AsSlice(), Length: uint32(prefix.Bits())}}}); err != nil {
			t.Fatal(err)
		}
	}
	table.EndList()
	return table
}

func TestPeersOfNoNameAreWaitedForUntilEnoughIsTold(t *testing.T) {
	made, _ := newTestWatch(t, false)
	table := serverWith(t, 20)
	w := newWatch(made.s, table.Sink(0), &oc.BgpConfigSet{DynamicNeighbors: make([]oc.DynamicNeighbor, 1)})
	t.Cleanup(w.stop)
	w.state(bgp.BGP_FSM_ESTABLISHED)
	w.take(announcements(1, false)...)
	time.Sleep(400 * time.Millisecond)
	if table.Stats().Settled {
		t.Error("settled with one of twenty routes")
	}
	w.take(announcements(19, false)...)
	w.endOfRIB(netip.MustParseAddr(graceful), bgp.RF_IPv6_UC)
	sourcetest.Eventually(t, "all is told", func() bool { return table.Stats().Settled })
}

// The routes of a server stay while a peer may still claim them.
func TestNothingIsToldBeforeAllPeersAreExpected(t *testing.T) {
	for name, c := range map[string]struct{ more, section string }{
		"neighbour":         {more: bgptest.Neighbor("127.0.0.1", "127.0.0.2", 65002, 0, true, true)},
		"dynamic neighbour": {more: "[[peer-groups]]\n[peer-groups.config]\npeer-group-name = \"all\"\n[[dynamic-neighbors]]\n[dynamic-neighbors.config]\nprefix = \"127.0.0.0/8\"\npeer-group = \"all\"\n"},
		"by gRPC":           {section: "grpc: 127.0.0.1:0"},
	} {
		options := sourcetest.Options(t, "file: "+bgptest.Write(t, "gobgp.toml", bgptest.Global(65001, "127.0.0.1", -1)+c.more)+"\n"+c.section)
		made, err := New(options)
		sourcetest.Check(t, err)
		set, err := made.(*speaker).read()
		sourcetest.Check(t, err)
		table := serverWith(t, 1)
		w := newWatch(made.(*speaker), table.Sink(0), set)
		if got := table.Stats(); got.Settled || got.AllTold || table.Take(1000).Withdrawn != 0 {
			t.Errorf("%s: %+v", name, got)
		}
		w.stop()
	}
}

func TestWhatGoBGPRefusesIsRefused(t *testing.T) {
	for section, want := range map[string]string{
		"":                        "file",
		"file: /nonexistent.toml": "nonexistent",
		"share: .nan":             "share is from",
		"file: " + bgptest.Write(t, "wrong.toml", "[global.config]\n as = \"x\"\n"): "wrong.toml",
		// GoBGP tells no best paths of these.
		"file: " + bgptest.Write(t, "best.toml", bgptest.Global(65001, "127.0.0.1", -1)+
			"[global.route-selection-options.config]\n disable-best-path-selection = true\n"): "disable-best-path-selection",
		"file: " + bgptest.Write(t, "policy.toml", bgptest.Global(65001, "127.0.0.1", -1)+
			"[global.apply-policy.config]\n default-export-policy = \"rejected\"\n"): "not \"rejected\"",
		"file: " + bgptest.Write(t, "server.toml", bgptest.Global(65001, "127.0.0.1", -1)+bgptest.Neighbor("127.0.0.1", "127.0.0.2", 65002, 0, true, true)+
			"  [neighbors.route-server.config]\n    route-server-client = true\n"): "route-server-client",
		"file: " + bgptest.Write(t, "group.toml", bgptest.Global(65001, "127.0.0.1", -1)+
			"[[peer-groups]]\n[peer-groups.config]\npeer-group-name = \"all\"\n[peer-groups.route-server.config]\nroute-server-client = true\n"): "route-server-client",
	} {
		if _, err := New(sourcetest.Options(t, section)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", section, err)
		}
	}
}

func TestOnlyFamiliesThatPeersHaveGetTables(t *testing.T) {
	more := bgptest.Neighbor("127.0.0.1", "127.0.0.2", 65002, 0, true, true)
	evpn := more + "  [[neighbors.afi-safis]]\n    [neighbors.afi-safis.config]\n      afi-safi-name = \"l2vpn-evpn\"\n"
	for name, c := range map[string]struct {
		more, section string
		families      int
	}{
		"unicast":             {more, "", 2},
		"and another":         {evpn, "", 3},
		"what the file names": {"[[global.afi-safis]]\n  [global.afi-safis.config]\n    afi-safi-name = \"ipv6-unicast\"\n" + more, "", 1},
		"gobgp may add any":   {more, "grpc: 127.0.0.1:0", len(oc.AfiSafiTypeToIntMap)},
	} {
		s, err := New(sourcetest.Options(t, "file: "+bgptest.Write(t, "gobgp.toml", bgptest.Global(65001, "127.0.0.1", -1)+c.more)+"\n"+c.section))
		sourcetest.Check(t, err)
		set, err := s.(*speaker).read()
		sourcetest.Check(t, err)
		if got := len(set.Global.AfiSafis); got != c.families {
			t.Errorf("%s: %d families, not %d", name, got, c.families)
		}
	}
}

func TestSendingIsDeferredWhereNothingIsSent(t *testing.T) {
	const listens = "[global.apply-policy.config]\n default-export-policy = \"reject-route\"\n"
	graceful := bgptest.Neighbor("127.0.0.1", "127.0.0.2", 65002, 0, true, true)
	for name, c := range map[string]struct {
		more, section string
		deferred      bool
	}{
		"a router":                         {graceful, "", false},
		"only listens":                     {listens + graceful, "", true},
		"sends what a policy names":        {listens + " export-policy-list = [\"some\"]\n" + graceful, "", false},
		"no End-of-RIB to wait for":        {listens + bgptest.Neighbor("127.0.0.1", "127.0.0.2", 65002, 0, true, false), "", false},
		"gobgp may add policies and peers": {listens + graceful, "grpc: 127.0.0.1:0", false},
	} {
		s, err := New(sourcetest.Options(t, "file: "+bgptest.Write(t, "gobgp.toml", bgptest.Global(65001, "127.0.0.1", -1)+c.more)+"\n"+c.section))
		sourcetest.Check(t, err)
		set, err := s.(*speaker).read()
		sourcetest.Check(t, err)
		if got := set.Neighbors[0].GracefulRestart.State.LocalRestarting; got != c.deferred {
			t.Errorf("%s: sending is deferred: %v", name, got)
		}
	}
}

func TestAnUnnumberedPeerMayComeLater(t *testing.T) {
	for _, name := range []string{"lo", "nonexistent"} {
		s, err := New(sourcetest.Options(t, "file: "+bgptest.Write(t, "gobgp.toml", bgptest.Global(65001, "127.0.0.1", -1)+
			"[[neighbors]]\n[neighbors.config]\npeer-as = 65002\nneighbor-interface = \""+name+"\"\n")))
		if err != nil {
			t.Error(err)
		} else if err := s.Run(t.Context(), sourcetest.NewSink()); !isAbsent(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
