// SPDX-License-Identifier: Apache-2.0

package bmp

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/packet/bmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"planb.dev/lookup/client/go/planbv1"
	"planb.dev/lookup/feed/bgp/bgptest"
	"planb.dev/lookup/feed/bgproute"
	"planb.dev/lookup/feed/source"
	"planb.dev/lookup/feed/source/sourcetest"
)

func TestMain(m *testing.M) { bgptest.Main(m) }

func header(kind, flags uint8, distinguisher uint64, address string, as uint32) bmp.BMPPeerHeader {
	peer := netip.Addr{}
	if address != "" {
		peer = netip.MustParseAddr(address)
	}
	return *bmp.NewBMPPeerHeader(kind, flags, distinguisher, peer, as, netip.MustParseAddr("192.0.2.1"), 0)
}

// What a router calls its Loc-RIB.
var own = header(bmp.BMP_PEER_TYPE_LOCAL_RIB, 0, 0, "", 65002)

func encode(message *bmp.BMPMessage, options ...*bgp.MarshallingOption) []byte {
	b, err := message.Serialize(options...)
	if err != nil {
		panic(err)
	}
	return b
}

func hello() []byte {
	return encode(bmp.NewBMPInitiation([]bmp.BMPInfoTLVInterface{bmp.NewBMPInfoTLVString(bmp.BMP_INIT_TLV_TYPE_SYS_NAME, "router")}))
}

// open is an OPEN with both families, and with numbered paths in a direction.
func open(mode bgp.BGPAddPathMode) *bgp.BGPMessage {
	capabilities := []bgp.ParameterCapabilityInterface{bgp.NewCapMultiProtocol(bgp.RF_IPv4_UC), bgp.NewCapMultiProtocol(bgp.RF_IPv6_UC)}
	if mode != 0 {
		capabilities = append(capabilities, bgp.NewCapAddPath([]*bgp.CapAddPathTuple{bgp.NewCapAddPathTuple(bgp.RF_IPv6_UC, mode)}))
	}
	message, err := bgp.NewBGPOpenMessage(65002, 90, netip.MustParseAddr("192.0.2.1"),
		[]bgp.OptionParameterInterface{bgp.NewOptionParameterCapability(capabilities)})
	if err != nil {
		panic(err)
	}
	return message
}

func up(h bmp.BMPPeerHeader, sent, received bgp.BGPAddPathMode) []byte {
	return encode(bmp.NewBMPPeerUpNotification(h, netip.MustParseAddr("192.0.2.2"), 179, 179, open(sent), open(received)))
}

func down(h bmp.BMPPeerHeader) []byte {
	return encode(bmp.NewBMPPeerDownNotification(h, bmp.BMP_PEER_DOWN_REASON_PEER_DE_CONFIGURED, nil, nil))
}

var numbered = &bgp.MarshallingOption{AddPath: map[bgp.Family]bgp.BGPAddPathMode{bgp.RF_IPv6_UC: bgp.BGP_ADD_PATH_BOTH}}

func nlri(prefix string, id uint32) []bgp.PathNLRI {
	n, err := bgp.NewIPAddrPrefix(netip.MustParsePrefix(prefix))
	if err != nil {
		panic(err)
	}
	return []bgp.PathNLRI{{NLRI: n, ID: id}}
}

func add(h bmp.BMPPeerHeader, prefix, gateway string, id uint32, options ...*bgp.MarshallingOption) []byte {
	reach, err := bgp.NewPathAttributeMpReachNLRI(bgp.RF_IPv6_UC, nlri(prefix, id), netip.MustParseAddr(gateway))
	if err != nil {
		panic(err)
	}
	path := bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{65002})})
	return encode(bmp.NewBMPRouteMonitoring(h, bgp.NewBGPUpdateMessage(nil,
		[]bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(0), path, reach}, nil)), options...)
}

func remove(h bmp.BMPPeerHeader, prefix string, id uint32, options ...*bgp.MarshallingOption) []byte {
	unreach, err := bgp.NewPathAttributeMpUnreachNLRI(bgp.RF_IPv6_UC, nlri(prefix, id))
	if err != nil {
		panic(err)
	}
	return encode(bmp.NewBMPRouteMonitoring(h, bgp.NewBGPUpdateMessage(nil, []bgp.PathAttributeInterface{unreach}, nil)), options...)
}

func ends(h bmp.BMPPeerHeader) []byte {
	return append(encode(bmp.NewBMPRouteMonitoring(h, bgp.NewEndOfRib(bgp.RF_IPv4_UC))),
		encode(bmp.NewBMPRouteMonitoring(h, bgp.NewEndOfRib(bgp.RF_IPv6_UC)))...)
}

// start runs a station for routers 127.0.0.2 and 127.0.0.3.
func start(t *testing.T, sink *sourcetest.Sink, more string) (port int) {
	port = bgptest.FreePort(t, "127.0.0.1")
	if !strings.Contains(more, "quiet:") {
		more += "\nquiet: 100ms"
	}
	sourcetest.Run(t, New, fmt.Sprintf("listen: 127.0.0.1:%d\nrouters: [127.0.0.2, 127.0.0.3]\n%s", port, more), sink)
	return port
}

// router is a connection.
type router struct {
	t *testing.T
	net.Conn
}

func dial(t *testing.T, port int, from string) *router {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	var connection net.Conn
	sourcetest.Eventually(t, "the station listens", func() (ok bool) {
		var err error
		connection, err = dialer.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		return err == nil
	})
	t.Cleanup(func() { connection.Close() })
	return &router{t, connection}
}

func (r *router) send(messages ...[]byte) {
	r.t.Helper()
	if _, err := r.Write(bytes.Join(messages, nil)); err != nil {
		r.t.Fatal(err)
	}
}

func await(t *testing.T, sink *sourcetest.Sink, session, state string) {
	t.Helper()
	sourcetest.Eventually(t, session+" is "+state, func() bool { return sink.State(session) == state })
}

func has(t *testing.T, sink *sourcetest.Sink, prefix, text string) {
	t.Helper()
	last := ""
	defer func() {
		if t.Failed() {
			t.Logf("last %q", last)
		}
	}()
	sourcetest.Eventually(t, prefix+" is "+text, func() bool {
		last = sink.Text(prefix)
		return last == text
	})
}

const p1, p2 = "2001:db8:1::/48", "2001:db8:2::/48"

func TestALocRIBIsFollowedAndKeptUntilItsEndOfRIB(t *testing.T) {
	sink := sourcetest.NewSink()
	port := start(t, sink, "quiet: 20s")
	r := dial(t, port, "127.0.0.2")
	r.send(hello(), up(own, 0, 0), add(own, p1, "2001:db8:ffff::1", 0), add(own, p2, "::", 0))
	has(t, sink, p2, "local")
	if got := sink.State("127.0.0.2"); got != "begun" {
		t.Errorf("%s before the End-of-RIB", got)
	}
	r.send(ends(own))
	await(t, sink, "127.0.0.2", "complete")
	if got := sink.State("127.0.0.3"); got != "lost" {
		t.Errorf("a router that never came is %q, not expected", got)
	}
	r.send(add(own, p2, "2001:db8:ffff::2", 0), remove(own, p1, 0))
	sourcetest.Eventually(t, "one is gone", func() bool { return sink.Len() == 1 })
	r.send(add(own, p1, "2001:db8:ffff::1", 0))
	has(t, sink, p1, "2001:db8:ffff::1")
	r.Close()
	await(t, sink, "127.0.0.2", "lost")
	if sink.Len() != 2 || sink.Withdrawn() != 1 {
		t.Errorf("%d routes, %d withdrawn", sink.Len(), sink.Withdrawn())
	}
	r = dial(t, port, "127.0.0.2")
	r.send(hello(), up(own, 0, 0), add(own, p1, "2001:db8:ffff::3", 0), ends(own)) // too few
	has(t, sink, p1, "2001:db8:ffff::3")
	if sink.Len() != 2 {
		t.Error("an early End-of-RIB withdrew a route")
	}
	r.send(down(own), up(own, 0, 0), add(own, p1, "2001:db8:ffff::3", 0), add(own, p2, "2001:db8:ffff::2", 0), ends(own))
	await(t, sink, "127.0.0.2", "complete")
}

func TestANextHopHasTheAttributesThatTheOptionNames(t *testing.T) {
	// Of a speaker with numbers of two bytes.
	old := header(0, bmp.BMP_PEER_FLAG_POST_POLICY|bmp.BMP_PEER_FLAG_TWO_AS, 0, "2001:db8::a", 65010)
	for more, want := range map[string]*planbv1.Attributes{
		"": nil, "attributes: origin": {OriginAs: 4200000000},
		"attributes: full": {OriginAs: 4200000000, Communities: []uint32{64500<<16 + 1},
			AsPath: []*planbv1.Attributes_Segment{{Numbers: []uint32{65002, 4200000000}}}},
	} {
		sink := sourcetest.NewSink()
		r := dial(t, start(t, sink, adjacent+"\n"+more), "127.0.0.2")
		reach, err := bgp.NewPathAttributeMpReachNLRI(bgp.RF_IPv6_UC, nlri(p1, 0), netip.MustParseAddr("2001:db8:ffff::1"))
		sourcetest.Check(t, err)
		path := bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{bgp.NewAsPathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, []uint16{65002, 23456})})
		later := bgp.NewPathAttributeAs4Path([]*bgp.As4PathParam{bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{4200000000})})
		r.send(hello(), up(old, 0, 0), encode(bmp.NewBMPRouteMonitoring(old, bgp.NewBGPUpdateMessage(nil, []bgp.PathAttributeInterface{
			bgp.NewPathAttributeOrigin(0), path, bgp.NewPathAttributeCommunities([]uint32{64500<<16 + 1}), reach, later}, nil))))
		has(t, sink, p1, "2001:db8:ffff::1")
		if got := sink.Paths(p1)[0].Attributes.Decode(); !proto.Equal(got, want) {
			t.Errorf("%s: %v, not %v", more, got, want)
		}
	}
}

func TestPrefixesBesideMPReachHaveTheirOwnNextHop(t *testing.T) {
	options, sink := sourcetest.Options(t, "routers: ['::1']\n"+adjacent+"\nattributes: full"), sourcetest.NewSink()
	made, err := New(options)
	sourcetest.Check(t, err)
	s := made.(*station)
	f := &follower{s: s, t: newTable(s, sink), router: netip.IPv6Loopback(), peers: map[peerKey]*peer{}}
	a := post("2001:db8::a", 65010)
	reach, _ := bgp.NewPathAttributeMpReachNLRI(bgp.RF_IPv6_UC, nlri(p1, 0), netip.MustParseAddr("2001:db8:ffff::1"))
	unreach, _ := bgp.NewPathAttributeMpUnreachNLRI(bgp.RF_IPv6_UC, nlri(p2, 0))
	other, _ := bgp.NewPathAttributeNextHop(netip.MustParseAddr("192.0.2.9"))
	tooMany := make([]uint32, 200)
	for i := range tooMany {
		tooMany[i] = uint32(i)
	}
	attributes := []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(0), bgp.NewPathAttributeAsPath(nil), other}
	for _, data := range [][]byte{
		up(a, 0, 0),
		encode(bmp.NewBMPRouteMonitoring(a, bgp.NewBGPUpdateMessage(nil, append(attributes, reach), nlri("10.0.0.0/8", 0)))),
		encode(bmp.NewBMPRouteMonitoring(a, bgp.NewBGPUpdateMessage(nil,
			append(attributes, bgp.NewPathAttributeCommunities(tooMany), unreach), nil))),
	} {
		sourcetest.Check(t, f.take(data))
	}
	f.t.tell()
	if v4, v6 := sink.Text("10.0.0.0/8"), sink.Text(p1); v4 != "192.0.2.9" || v6 != "2001:db8:ffff::1" {
		t.Errorf("%q, %q", v4, v6)
	}
	families, err := options.Metrics.(*prometheus.Registry).Gather()
	sourcetest.Check(t, err)
	for _, family := range families {
		counted := family.Metric[0].GetCounter().GetValue()
		if name := family.GetName(); counted != 0 && !strings.HasSuffix(name, "_messages_total") {
			t.Errorf("%s is %v", name, counted)
		}
	}
	f.lose()
	f.t.quiet.Wait()
}

func TestARouterWithoutEndOfRIBCompletesWhenItIsQuiet(t *testing.T) {
	sink := sourcetest.NewSink()
	r := dial(t, start(t, sink, ""), "127.0.0.2")
	r.send(hello(), up(own, 0, 0), add(own, p1, "2001:db8:ffff::1", 0))
	await(t, sink, "127.0.0.2", "complete")
}

// pmacct 814: the Loc-RIBs of all VRFs have the address 0.
func TestALocRIBOfAnotherVRFDoesNotCount(t *testing.T) {
	other := own
	other.PeerDistinguisher = 1
	for more, want := range map[string]string{"": "2001:db8:ffff::1", "distinguisher: '0:1'": "2001:db8:ffff::2"} {
		sink := sourcetest.NewSink()
		r := dial(t, start(t, sink, more), "127.0.0.2")
		peer := header(0, 0, 0, "2001:db8::9", 65009)
		r.send(hello(), up(own, 0, 0), up(other, 0, 0), up(peer, 0, 0), add(own, p1, "2001:db8:ffff::1", 0),
			add(other, p1, "2001:db8:ffff::2", 0), add(peer, p1, "2001:db8:ffff::3", 0), down(peer))
		await(t, sink, "127.0.0.2", "complete")
		if got := sink.Text(p1); got != want {
			t.Errorf("%s: %s, not %s", more, got, want)
		}
	}
}

const adjacent = "rib: post-policy\npeers: ['2001:db8::a', '2001:db8::b']"

func post(address string, as uint32) bmp.BMPPeerHeader {
	return header(0, bmp.BMP_PEER_FLAG_POST_POLICY, 0, address, as)
}

// pmacct 539.
func TestTheEndOfOnePeerLeavesTheRoutesOfOthers(t *testing.T) {
	sink := sourcetest.NewSink()
	r := dial(t, start(t, sink, adjacent), "127.0.0.2")
	a, b, unnamed := post("2001:db8::a", 65010), post("2001:db8::b", 65011), post("2001:db8::c", 65012)
	r.send(hello(), up(a, 0, 0), up(b, 0, 0), up(unnamed, 0, 0), add(unnamed, p1, "2001:db8:ffff::c", 0),
		add(b, p1, "2001:db8:ffff::b", 0), add(b, p2, "2001:db8:ffff::b", 0))
	has(t, sink, p1, "2001:db8:ffff::b")
	r.send(add(a, p1, "2001:db8:ffff::a", 0)) // the first peer counts
	has(t, sink, p1, "2001:db8:ffff::a")
	preferred := a
	preferred.Flags = 0
	r.send(add(preferred, p2, "2001:db8:ffff::9", 0)) // of the table before the policy
	r.send(down(a), down(unnamed))
	has(t, sink, p1, "2001:db8:ffff::b")
	has(t, sink, p2, "2001:db8:ffff::b")
	// A peer that comes back as another one before its end is told.
	again := post("2001:db8::b", 65099)
	r.send(up(again, 0, 0), add(again, p1, "2001:db8:ffff::d", 0), down(b))
	has(t, sink, p1, "2001:db8:ffff::d")
	await(t, sink, "127.0.0.2 2001:db8::a", "lost")
	time.Sleep(50 * time.Millisecond)
	if got := sink.State("127.0.0.2 2001:db8::b"); got == "lost" {
		t.Error("the end of the one before ended the new one")
	}
	if sink.Withdrawn() != 0 {
		t.Errorf("%d routes were withdrawn", sink.Withdrawn())
	}
}

func TestAPeerOfIPv4MayBeToldAsOneOfIPv6(t *testing.T) {
	f, sink := newFollower(t, "rib: post-policy\npeers: [192.0.2.7]")
	mapped := post("::ffff:192.0.2.7", 65010)
	f.takeAll(t, up(mapped, 0, 0), add(mapped, p1, "2001:db8:ffff::1", 0), add(mapped, "::ffff:10.0.0.0/104", "2001:db8:ffff::1", 0))
	if sink.State("::1 192.0.2.7") != "begun" || fmt.Sprint(sink.Prefixes()) != "[::ffff:10.0.0.0/104 "+p1+"]" {
		t.Errorf("%s, %v", sink.State("::1 192.0.2.7"), sink.Prefixes())
	}
}

func TestTheFirstRouterCountsWhileItHasARoute(t *testing.T) {
	sink := sourcetest.NewSink()
	port := start(t, sink, "")
	first, second := dial(t, port, "127.0.0.2"), dial(t, port, "127.0.0.3")
	second.send(hello(), up(own, 0, 0), add(own, p1, "2001:db8:ffff::3", 0))
	has(t, sink, p1, "2001:db8:ffff::3")
	first.send(hello(), up(own, 0, 0), add(own, p1, "2001:db8:ffff::2", 0))
	has(t, sink, p1, "2001:db8:ffff::2")
	first.send(remove(own, p1, 0))
	has(t, sink, p1, "2001:db8:ffff::3")
	first.send(add(own, p1, "2001:db8:ffff::2", 0))
	has(t, sink, p1, "2001:db8:ffff::2")
	first.Close()
	has(t, sink, p1, "2001:db8:ffff::3")
	if sink.Withdrawn() != 0 {
		t.Errorf("%d routes were withdrawn", sink.Withdrawn())
	}
}

// gobmp 468: read wrongly, the number of a path is a part of its prefix.
func TestPathsAreNumberedIfBothSidesSaidSo(t *testing.T) {
	const receive, sends, both = bgp.BGP_ADD_PATH_RECEIVE, bgp.BGP_ADD_PATH_SEND, bgp.BGP_ADD_PATH_BOTH
	for _, c := range []struct {
		sent, received bgp.BGPAddPathMode
		are            bool
	}{{receive, sends, true}, {both, both, true}, {sends, receive, false}, {receive, 0, false}, {0, sends, false}} {
		sink := sourcetest.NewSink()
		r := dial(t, start(t, sink, adjacent), "127.0.0.2")
		a := post("2001:db8::a", 65010)
		var options []*bgp.MarshallingOption
		want := "2001:db8:ffff::2"
		if c.are {
			options, want = append(options, numbered), "2001:db8:ffff::1 2001:db8:ffff::2"
		}
		r.send(hello(), up(a, c.sent, c.received), add(a, p1, "2001:db8:ffff::1", 1, options...),
			add(a, p1, "2001:db8:ffff::2", 2, options...))
		has(t, sink, p1, want)
		r.send(remove(a, p1, 1, options...), remove(a, p1, 2, options...))
		sourcetest.Eventually(t, "nothing is left", func() bool { return sink.Len() == 0 })
	}
}

func TestPathsOfALocRIBAreOneRouteIfItIsOfSeveral(t *testing.T) {
	for more, want := range map[string]string{"": "2001:db8:ffff::2", "multipath: true": "2001:db8:ffff::1 2001:db8:ffff::2"} {
		sink := sourcetest.NewSink()
		r := dial(t, start(t, sink, more), "127.0.0.2")
		r.send(hello(), up(own, bgp.BGP_ADD_PATH_BOTH, bgp.BGP_ADD_PATH_BOTH),
			add(own, p1, "2001:db8:ffff::1", 1, numbered), add(own, p1, "2001:db8:ffff::2", 2, numbered))
		has(t, sink, p1, want)
		r.send(remove(own, p1, 1, numbered))
		time.Sleep(20 * time.Millisecond)
		has(t, sink, p1, "2001:db8:ffff::2")
	}
}

func TestAPrefixHasABoundedNumberOfPaths(t *testing.T) {
	f, sink := newFollower(t, "multipath: true")
	f.takeAll(t, up(own, bgp.BGP_ADD_PATH_BOTH, bgp.BGP_ADD_PATH_BOTH))
	for i := range bgproute.MaxPaths + 2 {
		f.takeAll(t, add(own, p1, fmt.Sprintf("2001:db8:ffff::%x", i+1), uint32(i), numbered))
	}
	if n := len(sink.Paths(p1)); n != bgproute.MaxPaths || testutil.ToFloat64(f.s.crowded) != 2 {
		t.Errorf("%d paths, %v left out", n, testutil.ToFloat64(f.s.crowded))
	}
	f.takeAll(t, remove(own, p1, 0, numbered), add(own, p1, "2001:db8:ffff::ffff", 7777, numbered))
	if n := len(sink.Paths(p1)); n != bgproute.MaxPaths {
		t.Errorf("%d paths", n)
	}
	// Another peer is not crowded out.
	f, sink = newFollower(t, adjacent)
	a, b := post("2001:db8::a", 65010), post("2001:db8::b", 65011)
	f.takeAll(t, up(a, 0, 0), up(b, bgp.BGP_ADD_PATH_BOTH, bgp.BGP_ADD_PATH_BOTH))
	for i := range bgproute.MaxPaths {
		f.takeAll(t, add(b, p1, "2001:db8:ffff::b", uint32(i), numbered))
	}
	f.takeAll(t, add(a, p1, "2001:db8:ffff::a", 0))
	if got := sink.Text(p1); got != "2001:db8:ffff::a" {
		t.Error(got)
	}
}

func TestANewConnectionOfARouterEndsTheOneBefore(t *testing.T) {
	sink := sourcetest.NewSink()
	port := start(t, sink, "")
	old := dial(t, port, "127.0.0.2")
	old.send(hello(), up(own, 0, 0), add(own, p1, "2001:db8:ffff::1", 0))
	has(t, sink, p1, "2001:db8:ffff::1")
	silent := dial(t, port, "127.0.0.2") // says no hello
	next := dial(t, port, "127.0.0.2")
	next.send(hello(), up(own, 0, 0), add(own, p1, "2001:db8:ffff::2", 0))
	has(t, sink, p1, "2001:db8:ffff::2")
	if _, err := io.Copy(io.Discard, old); err != nil {
		t.Log(err)
	}
	await(t, sink, "127.0.0.2", "complete")
	silent.Close()
	time.Sleep(20 * time.Millisecond)
	if got := sink.State("127.0.0.2"); got != "complete" {
		t.Error(got)
	}
}

func TestWhatIsNoMessageOfARouterEndsTheConnection(t *testing.T) {
	sink := sourcetest.NewSink()
	port := start(t, sink, "")
	long := []byte{3, 0, 0x10, 0, 1, 0} // 1 MiB and a byte: refused before it is read
	for name, messages := range map[string][][]byte{
		"no hello":        {up(own, 0, 0)},
		"another version": {{2, 0, 0, 0, 6, 4}},
		"no length":       {hello(), {3, 0, 0, 0, 5, 4}},
		"a long message":  {hello(), long},
		"the end":         {hello(), encode(bmp.NewBMPTermination(nil))},
	} {
		r := dial(t, port, "127.0.0.2")
		r.send(messages...)
		r.SetReadDeadline(time.Now().Add(sourcetest.Patience))
		if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: read %d, %v", name, n, err)
		}
	}
	if r := dial(t, port, "127.0.0.4"); r != nil {
		r.SetReadDeadline(time.Now().Add(sourcetest.Patience))
		if _, err := r.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("a router that is not named: %v", err)
		}
	}
}

func TestAConfigurationThatCannotBeUsedIsRefused(t *testing.T) {
	const routers = "routers: [127.0.0.2]\n"
	for section, want := range map[string]string{
		"":                                     "routers",
		routers + "rib: adj-rib-in":            "adj-rib-in",
		routers + "rib: pre-policy":            "peers",
		routers + "peers: ['::1']":             "peers",
		routers + "distinguisher: x":           "distinguisher",
		routers + "quiet: 1ms":                 "quiet",
		routers + "listen: nowhere":            "listen",
		"routers: [router.example]":            "router.example",
		routers + "share: .nan":                "share",
		routers + "share: 2":                   "share",
		routers + "attributes: all":            "attributes",
		routers + "local_as: -1":               "local_as",
		routers + "rib: post-policy\npeers: 1": "[3:8]",
	} {
		if _, err := New(sourcetest.Options(t, section)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", section, err)
		}
	}
}

func TestARouterIsNamedWithItsZoneOrForAll(t *testing.T) {
	made, err := New(sourcetest.Options(t, "{routers: ['fe80::1%eth0', 'fe80::2', '::ffff:192.0.2.1'], rib: pre-policy, peers: ['fe80::9%eth0']}"))
	sourcetest.Check(t, err)
	s := made.(*station)
	for address, want := range map[string]string{"fe80::1%eth0": "fe80::1%eth0", "fe80::1%eth1": "", "fe80::1": "",
		"fe80::2%eth1": "fe80::2", "192.0.2.1": "192.0.2.1", "192.0.2.2": ""} {
		got, ok := s.router(netip.MustParseAddr(address))
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%s is %s", address, got)
		}
	}
	if got := fmt.Sprint(s.Peers); got != "[fe80::9]" {
		t.Error(got)
	}
}

// busy is a sink in which each call takes long, until something else has had its turn.
type busy struct {
	*sourcetest.Sink
	t     *testing.T
	calls int
	turn  func()
	had   chan struct{}
}

func (b *busy) Apply(session string, routes []source.Route) {
	if b.State(session) == "lost" {
		b.t.Errorf("%d routes of %s, which is lost", len(routes), session)
	}
	if b.turn != nil {
		if b.calls++; b.calls == 1 {
			go func() {
				defer close(b.had)
				b.turn()
			}()
		}
		select {
		case <-b.had:
		case <-time.After(time.Duration(b.calls) * 20 * time.Millisecond):
		}
	}
	b.Sink.Apply(session, routes)
}

func TestMessagesOfOthersAreTakenWhileAPeerOfManyRoutesIsRemoved(t *testing.T) {
	made, err := New(sourcetest.Options(t, "routers: [127.0.0.2]\nrib: pre-policy\npeers: ['2001:db8::a', '2001:db8::b']"))
	sourcetest.Check(t, err)
	sink := &busy{Sink: sourcetest.NewSink(), t: t, had: make(chan struct{})}
	table := newTable(made.(*station), sink)
	first, second := &peer{session: "127.0.0.2 2001:db8::a"}, &peer{session: "127.0.0.2 2001:db8::b", rank: 1}
	defer table.quiet.Wait()
	defer func() { table.lose(second) }()
	const parts = 10
	prefix := func(i int) string { return fmt.Sprintf("2001:db8:%x:%x::/64", 1+i/1000, 1+i%1000) }
	change := func(p *peer, i int, gateway string) {
		var way *source.NextHop
		if gateway != "" {
			way = &source.NextHop{Gateway: netip.MustParseAddr(gateway)}
		}
		table.change(p, bgp.RF_IPv6_UC, nlri(prefix(i), 0), way, false, way != nil)
	}
	for _, p := range []*peer{first, second} {
		table.begin(p)
	}
	for i := range parts * source.MaxApply {
		change(first, i, "2001:db8:ffff::1")
		change(second, i, "2001:db8:ffff::2")
	}
	table.tell()

	// Of routes that the first peer has still, the second one changes one and ends one.
	var changed, ended string
	sink.turn = func() {
		table.mu.Lock()
		defer table.mu.Unlock()
		for i := 0; i < parts*source.MaxApply && ended == ""; i++ {
			switch p := prefix(i); {
			case table.routes[source.KeyOf(netip.MustParsePrefix(p))].owner() != first:
			case changed == "":
				changed = p
				change(second, i, "2001:db8:ffff::3")
			default:
				ended = p
				change(second, i, "")
			}
		}
	}
	table.lose(first)
	<-sink.had
	sink.turn = nil
	if ended == "" {
		t.Fatal("all routes are removed at once")
	}
	for i := range parts * source.MaxApply {
		p, want := prefix(i), "2001:db8:ffff::2"
		if p == changed {
			want = "2001:db8:ffff::3"
		} else if p == ended { // stale: what only a lost peer has
			want = "2001:db8:ffff::1"
		}
		if got := sink.Text(p); got != want {
			t.Fatalf("%s: %s, not %s", p, got, want)
		}
	}
	for k, r := range table.routes {
		if len(r.paths) != 1 || r.owner() != second {
			t.Fatalf("%s has %d paths", k.Prefix(), len(r.paths))
		}
	}
}

// FuzzMessages takes whatever a router that is named may send.
func FuzzMessages(f *testing.F) {
	a := post("2001:db8::a", 65010)
	for _, messages := range [][][]byte{
		{up(own, 3, 3), add(own, p1, "2001:db8::1", 7, numbered), remove(own, p1, 7, numbered), ends(own), down(own)},
		{up(a, 0, 0), add(a, p1, "2001:db8::1", 0), up(a, 1, 2), down(a), encode(bmp.NewBMPTermination(nil))},
	} {
		f.Add(bytes.Join(messages, nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, section := range []string{"routers: ['::1']", "routers: ['::1']\nmultipath: true", "routers: ['::1']\n" + adjacent} {
			made, err := New(sourcetest.Options(t, section))
			sourcetest.Check(t, err)
			s := made.(*station)
			table := newTable(s, sourcetest.NewSink())
			follower := &follower{s: s, t: table, router: netip.IPv6Loopback(), peers: map[peerKey]*peer{}}
			follower.read(bufio.NewReaderSize(bytes.NewReader(data), 1<<16))
			follower.lose()
			table.quiet.Wait()
			if len(table.routes) != 0 || len(follower.peers) != 0 {
				t.Errorf("%d routes and %d peers are left", len(table.routes), len(follower.peers))
			}
		}
	})
}
