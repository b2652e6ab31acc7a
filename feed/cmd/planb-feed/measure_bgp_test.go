// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"planb.dev/lookup/feed/bgp/bgptest"
	"planb.dev/lookup/feed/source/sourcetest"
)

// A second GoBGP, whose session is established once it has all routes.
type bgpTeller struct {
	port    int
	speaker *bgptest.Speaker
}

func (b *bgpTeller) section(t *testing.T) string {
	b.port = bgptest.FreePort(t, "127.0.0.1")
	return "file: " + bgptest.Write(t, "gobgp.toml", bgptest.Global(65001, "127.0.0.1", b.port)+
		"[global.apply-policy.config]\n default-export-policy = \"reject-route\"\n"+
		bgptest.Neighbor("127.0.0.1", "127.0.0.2", 65002, 0, true, true))
}

func (b *bgpTeller) begin(t *testing.T, f *feed, tables []string) func() time.Time {
	var lines []string
	for _, table := range tables {
		lines = append(lines, "load "+table)
	}
	b.speaker = bgptest.Start(t, "127.0.0.2", b.port, true, lines...)
	return func() time.Time {
		up, _ := f.times.Load("Peer Up")
		return up.(time.Time)
	}
}

func (b *bgpTeller) change(t *testing.T, changes []change) {
	lines := make([]string, len(changes))
	for i, c := range changes {
		lines[i] = fmt.Sprintf("add %s %s", c.prefix, bgptest.Gateway(c.prefix, c.hop))
	}
	b.speaker.Say(t, lines...)
}

// A peer whose messages are written before its session: it takes none of the processors, as
// a router on another machine.
type wireTeller struct {
	bgpTeller
	hold       time.Duration // that its OPEN names; zero: 90 s
	mu         sync.Mutex    // of writes
	connection net.Conn
}

func (p *wireTeller) begin(t *testing.T, f *feed, tables []string) func() time.Time {
	type attributes struct {
		gateway netip.Addr
		origin  uint32
	}
	nlris := map[attributes][]bgp.PathNLRI{}
	prefixes, hops := prefixesOf(t, tables)
	for i, prefix := range prefixes {
		nlri, err := bgp.NewIPAddrPrefix(prefix)
		sourcetest.Check(t, err)
		key := attributes{bgptest.Gateway(prefix, hops[i]), bgptest.Origin(prefix)}
		nlris[key] = append(nlris[key], bgp.PathNLRI{NLRI: nlri})
	}
	var messages []byte
	for key, all := range nlris {
		for some := range slices.Chunk(all, 200) { // of at most 17 bytes: a message has 4,096
			messages = p.append(t, messages, key.gateway, key.origin, some)
		}
	}
	messages = appendMessage(t, messages, bgp.NewEndOfRib(bgp.RF_IPv4_UC))
	messages = appendMessage(t, messages, bgp.NewEndOfRib(bgp.RF_IPv6_UC))
	eventually(t, "the session is established", func() bool { return p.open(t) })
	p.write(t, messages)
	return func() time.Time {
		up, _ := f.times.Load("Peer Up")
		return up.(time.Time)
	}
}

// open says whether the session is established.
func (p *wireTeller) open(t *testing.T) bool {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	connection, err := dialer.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.port))
	if err != nil {
		return false
	}
	p.connection = connection
	families := []*bgp.CapGracefulRestartTuple{
		bgp.NewCapGracefulRestartTuple(bgp.RF_IPv4_UC, false), bgp.NewCapGracefulRestartTuple(bgp.RF_IPv6_UC, false)}
	hold := cmp.Or(p.hold, 90*time.Second)
	open, err := bgp.NewBGPOpenMessage(65002, uint16(hold.Seconds()), netip.MustParseAddr("127.0.0.2"), []bgp.OptionParameterInterface{
		bgp.NewOptionParameterCapability([]bgp.ParameterCapabilityInterface{
			bgp.NewCapMultiProtocol(bgp.RF_IPv4_UC), bgp.NewCapMultiProtocol(bgp.RF_IPv6_UC),
			bgp.NewCapFourOctetASNumber(65002), bgp.NewCapGracefulRestart(false, false, 30, families)})})
	sourcetest.Check(t, err)
	if _, err := connection.Write(appendMessage(t, nil, open)); err != nil {
		return false
	}
	keepalive := appendMessage(t, nil, bgp.NewBGPKeepAliveMessage())
	established := make(chan bool, 1)
	go func() {
		defer connection.Close()
		defer close(established)
		for header := make([]byte, bgp.BGP_HEADER_LENGTH); ; {
			if _, err := io.ReadFull(connection, header); err != nil {
				return
			}
			_, _ = io.CopyN(io.Discard, connection, int64(binary.BigEndian.Uint16(header[16:]))-bgp.BGP_HEADER_LENGTH)
			p.mu.Lock()
			_, _ = connection.Write(keepalive) // to the OPEN, and so often as the other side
			p.mu.Unlock()
			if header[18] == bgp.BGP_MSG_KEEPALIVE {
				select {
				case established <- true:
				default:
				}
			}
		}
	}()
	return <-established
}

func appendMessage(t *testing.T, to []byte, message *bgp.BGPMessage) []byte {
	bytes, err := message.Serialize()
	sourcetest.Check(t, err)
	return append(to, bytes...)
}

// append appends an UPDATE of prefixes with the same attributes.
func (p *wireTeller) append(t *testing.T, to []byte, gateway netip.Addr, origin uint32, nlris []bgp.PathNLRI) []byte {
	path := bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{
		bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{65002, 64500, 64500 + origin%32, origin})})
	attributes := []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(0), path}
	if gateway.Is4() {
		hop, err := bgp.NewPathAttributeNextHop(gateway)
		sourcetest.Check(t, err)
		return appendMessage(t, to, bgp.NewBGPUpdateMessage(nil, append(attributes, hop), nlris))
	}
	reach, err := bgp.NewPathAttributeMpReachNLRI(bgp.RF_IPv6_UC, nlris, gateway)
	sourcetest.Check(t, err)
	return appendMessage(t, to, bgp.NewBGPUpdateMessage(nil, append(attributes, reach), nil))
}

func (p *wireTeller) write(t *testing.T, messages []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.connection.Write(messages); err != nil {
		t.Fatal(err)
	}
}

func (p *wireTeller) change(t *testing.T, changes []change) {
	var messages []byte
	for _, c := range changes {
		nlri, err := bgp.NewIPAddrPrefix(c.prefix)
		sourcetest.Check(t, err)
		messages = p.append(t, messages, bgptest.Gateway(c.prefix, c.hop), bgptest.Origin(c.prefix), []bgp.PathNLRI{{NLRI: nlri}})
	}
	p.write(t, messages)
}

// Lists that are asked for again and again block GoBGP until sessions end (its issue 3238);
// the feed asks for none.
func TestASessionOfThreeSecondsOutlivesALoadAndWhatFollowsIt(t *testing.T) {
	bgptest.SkipUnderRaceDetector(t)
	const routes = 100_000
	var text strings.Builder
	for i := range routes {
		fmt.Fprintf(&text, "2a00:%x:%x::/48 %d\n", i>>16, i&0xffff, 1+i%50)
	}
	table := filepath.Join(t.TempDir(), "table")
	sourcetest.Check(t, os.WriteFile(table, []byte(text.String()), 0o600))
	s := startServer(t, "--store=none")
	f := &feed{t: t, folder: t.TempDir()}
	peer := &wireTeller{hold: 3 * time.Second} // the least that RFC 4271 allows
	f.configure(s, fmt.Sprintf("sources:\n  - {name: peer, kind: bgp, options: {%s}}\n", peer.section(t)))
	f.run()
	eventually(t, "the server is followed", func() bool { return strings.Contains(f.page("/metrics"), "planb_feed_connected 1") })
	began := peer.begin(t, f, []string{table})
	eventually(t, "all is loaded", f.ready)
	for end := began().Add(2 * peer.hold); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if !strings.Contains(f.page("/metrics"), fmt.Sprintf(`planb_feed_source_routes{source="peer"} %d`, routes)) {
			t.Fatal("not all routes are counted")
		}
	}
	if _, down := f.times.Load("Peer Down"); down {
		t.Error("the session ended")
	}
}
