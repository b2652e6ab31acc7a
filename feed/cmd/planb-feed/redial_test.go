// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"planb.dev/lookup/feed/bgp/bgptest"
	"planb.dev/lookup/feed/source/sourcetest"
)

// zebra is the far side of a source of kind fpm: it tells routes by gateways and by next-hop
// objects, whose ids are other ones on each connection, as FRR's.
type zebra struct {
	t          *testing.T
	random     *rand.Rand
	port       int
	connection net.Conn
	base       uint32          // of the ids of objects
	objects    [4]int          // their gateways
	routes     map[string]int  // a gateway, or an object: -1 is the first
	always     map[string]bool // of these: never withdrawn
	pending    []byte          // frames
	gateways   func(int) netip.Addr
}

func (z *zebra) frame(kind uint16, fixed []byte, attributes ...[]byte) {
	b := append([]byte{1, 1, 0, 0}, make([]byte, unix.NLMSG_HDRLEN)...)
	b = append(b, fixed...)
	for _, a := range attributes {
		b = append(b, a...)
	}
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	binary.NativeEndian.PutUint32(b[4:], uint32(len(b)-4))
	binary.NativeEndian.PutUint16(b[8:], kind)
	z.pending = append(z.pending, b...)
}

func attribute(kind uint16, data []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(data)))
	return append(binary.NativeEndian.AppendUint16(b, kind), data...)
}

func number(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

func (z *zebra) tellObject(i int) {
	const id, gateway = 1, 6 // NHA_ID, NHA_GATEWAY
	z.frame(unix.RTM_NEWNEXTHOP, []byte{unix.AF_INET6, 0, 0, 0, 0, 0, 0, 0},
		attribute(id, number(z.base+uint32(i))), attribute(gateway, z.gateways(z.objects[i]).AsSlice()))
}

func (z *zebra) tellRoute(kind uint16, prefix string) {
	const object = 30 // RTA_NH_ID
	p := netip.MustParsePrefix(prefix)
	way := attribute(unix.RTA_GATEWAY, z.gateways(z.routes[prefix]).AsSlice())
	if i := z.routes[prefix]; kind == unix.RTM_DELROUTE {
		way = nil // as FRR's
	} else if i < 0 {
		way = attribute(object, number(z.base+uint32(-i-1)))
	}
	z.frame(kind, []byte{unix.AF_INET6, byte(p.Bits()), 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_BGP, 0, unix.RTN_UNICAST, 0, 0, 0, 0},
		attribute(unix.RTA_DST, p.Addr().AsSlice()), attribute(unix.RTA_PRIORITY, number(20)), way)
}

// flush sends, if there is a connection.
func (z *zebra) flush() {
	if z.connection != nil {
		_ = z.connection.SetWriteDeadline(time.Now().Add(patience))
		if _, err := z.connection.Write(z.pending); err != nil {
			z.hangUp()
		}
	}
	z.pending = nil
}

func (z *zebra) hangUp() {
	if z.connection != nil {
		_ = z.connection.Close()
		z.connection = nil
	}
}

// dial tells all, as zebra does on each connection.
func (z *zebra) dial() {
	z.hangUp()
	eventually(z.t, "the source listens", func() (ok bool) {
		var err error
		z.connection, err = net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", z.port))
		return err == nil
	})
	z.base += 100
	z.pending = nil
	for i := range z.objects {
		z.tellObject(i)
	}
	for prefix := range z.routes {
		z.tellRoute(unix.RTM_NEWROUTE, prefix)
	}
	z.flush()
}

func (z *zebra) change() {
	for range 1 + z.random.IntN(20) {
		prefix := fmt.Sprintf("2001:db8:%x::/48", 1+z.random.IntN(300))
		switch _, is := z.routes[prefix]; {
		case z.random.IntN(8) == 0:
			i := z.random.IntN(len(z.objects))
			z.objects[i] = 1 + z.random.IntN(9)
			z.tellObject(i)
		case is && !z.always[prefix] && z.random.IntN(3) == 0:
			delete(z.routes, prefix)
			z.tellRoute(unix.RTM_DELROUTE, prefix)
		default:
			z.routes[prefix] = z.random.IntN(14) - len(z.objects)
			z.tellRoute(unix.RTM_NEWROUTE, prefix)
		}
	}
	z.flush()
}

// newZebra has gateways of 2001:db8:ffff:NETWORK::/64.
func newZebra(t *testing.T, random *rand.Rand, network int) *zebra {
	z := &zebra{t: t, random: random, port: bgptest.FreePort(t, "127.0.0.1"), routes: map[string]int{}, always: map[string]bool{},
		gateways: func(n int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8:ffff:%d::%x", network, n+10)) }}
	t.Cleanup(z.hangUp)
	return z
}

// source is what the feed's configuration says of it.
func (z *zebra) source(distance int) string {
	return fmt.Sprintf("  - {name: zebra%d, kind: fpm, distance: %[1]d, options: {listen: '127.0.0.1:%d', quiet: 200ms, share: 0.5}}\n", distance, z.port)
}

func (z *zebra) announce(prefix string, gateway int) {
	z.routes[prefix] = gateway
	z.tellRoute(unix.RTM_NEWROUTE, prefix)
	z.flush()
}

func TestSIGHUPEndsNoSession(t *testing.T) {
	s := startServer(t, "--store=none")
	z := newZebra(t, nil, 0)
	f := &feed{t: t, folder: t.TempDir()}
	f.configure(s, "sources:\n"+z.source(10))
	f.run()
	z.dial()
	z.announce("2001:db8::/32", 1)
	eventually(t, "ready", f.ready)
	f.command.Process.Signal(syscall.SIGHUP)
	eventually(t, "the signal is logged", func() bool {
		_, logged := f.times.Load("SIGHUP changes nothing: the configuration counts at the next start")
		return logged
	})
	z.announce("2001:db8::/32", 2)
	client := s.client()
	eventually(t, "the same session is followed", func() bool {
		return has(client, map[string]string{"2001:db8::/32": "via " + z.gateways(2).String()})
	})
}

// What a server that hangs does not take waits in the feed: zebra would end a connection that is
// not read, and GoBGP keeps events without bound.
func TestSourcesAreReadWhileTheServerHangs(t *testing.T) {
	t.Parallel() // waits for timers most of the time
	bgptest.SkipUnderRaceDetector(t)
	s := startServer(t, "--store=none")
	z, peers := newZebra(t, nil, 0), bgptest.FreePort(t, "127.0.0.1")
	gobgp := bgptest.Write(t, "gobgp.toml", bgptest.Global(65001, "127.0.0.1", peers)+
		bgptest.Neighbor("127.0.0.1", "127.0.0.3", 65003, 0, true, true))
	f := &feed{t: t, folder: t.TempDir()}
	f.configure(s, "sources:\n"+z.source(10)+"  - {name: bgp, kind: bgp, options: {quiet: 300ms, file: "+gobgp+"}}\n")
	f.run()
	z.dial()
	z.announce("2001:db8::/32", 1)
	peer := bgptest.Start(t, "127.0.0.3", peers, true, "add 192.0.2.0/24 198.51.100.1")
	eventually(t, "ready", f.ready)

	sourcetest.Check(t, s.command.Process.Signal(syscall.SIGSTOP))
	want := map[string]string{"2001:db8::/32": "via " + z.gateways(1).String(), "192.0.2.0/24": "via 198.51.100.1"}
	const ofZebra, ofPeer = 40_000, 10_000
	for i := range ofZebra { // 5 MiB, of which the feed makes one for the server
		prefix := fmt.Sprintf("2001:db8:%x:%x::/64", 1+i/1000, 1+i%1000)
		z.routes[prefix] = 2
		z.tellRoute(unix.RTM_NEWROUTE, prefix)
		want[prefix] = "via " + z.gateways(2).String()
	}
	z.flush()
	var lines strings.Builder
	for i := range ofPeer {
		prefix := fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)
		fmt.Fprintln(&lines, prefix, 7)
		want[prefix] = "via 192.0.2.7"
	}
	peer.Say(t, "load "+bgptest.Write(t, "routes", lines.String()))
	eventually(t, "all is read", func() bool {
		metrics := f.page("/metrics")
		return strings.Contains(metrics, fmt.Sprintf(`planb_feed_source_routes{source="zebra10"} %d`, ofZebra+1)) &&
			strings.Contains(metrics, fmt.Sprintf(`planb_feed_source_routes{source="bgp"} %d`, ofPeer+1))
	})
	visible := func(routes int) bool {
		return strings.Contains(f.page("/metrics"), fmt.Sprintf("planb_feed_changes_total{what=\"announced\"} %d\n", routes))
	}
	if !visible(2) {
		t.Error("the server does not hang")
	}
	sourcetest.Check(t, s.command.Process.Signal(syscall.SIGCONT))
	eventually(t, "all is visible", func() bool { return visible(2 + ofZebra + ofPeer) })
	if !has(s.client(), want) {
		t.Error("the routes are other ones")
	}
	if metrics := f.page("/metrics"); !strings.Contains(metrics, "planb_feed_resyncs_total 1\n") {
		t.Error("the server was taken for gone")
	}
}

// Two zebras tell and change routes of the same prefixes, with objects that change under them.
// They, the feed and the server are killed, and routes end while no feed is there.
func TestNothingIsLostOrLeftWhenConnectionsBreakUnderChurn(t *testing.T) {
	t.Parallel() // waits for timers most of the time
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	s := startServer(t, "--store="+filepath.Join(t.TempDir(), "store"), "--store_sync=off")
	random := rand.New(rand.NewPCG(5, 6))
	f := &feed{t: t, folder: t.TempDir()}
	var text strings.Builder
	text.WriteString("sources:\n")
	zebras := make([]*zebra, 2)
	for i := range zebras {
		zebras[i] = newZebra(t, random, i)
		text.WriteString(zebras[i].source(10 + i))
	}
	for i := range 100 {
		prefix := fmt.Sprintf("2001:db8:%x::/48", 1+i)
		zebras[1].routes[prefix], zebras[1].always[prefix] = 1, true
	}
	f.configure(s, text.String())
	f.run()
	for _, z := range zebras {
		z.change()
		z.dial()
	}
	eventually(t, "ready", f.ready)
	client := s.client()
	for round := range rounds {
		for range 3 {
			zebras[random.IntN(2)].change()
			time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		}
		z := zebras[random.IntN(2)]
		switch random.IntN(5) {
		case 0:
			s.stop(syscall.SIGKILL)
			z.change()
			s.run()
		case 1:
			f.stop(syscall.SIGKILL)
			for _, z := range zebras {
				z.hangUp()
				z.change()
			}
			f.run()
			for _, z := range zebras {
				z.dial()
			}
		default:
			z.hangUp()
			z.change()
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
			z.dial()
		}
		if round%5 != 4 {
			continue
		}
		want := map[string]string{}
		for _, z := range []*zebra{zebras[1], zebras[0]} {
			for prefix, n := range z.routes {
				if n < 0 {
					n = z.objects[-n-1]
				}
				want[prefix] = "via " + z.gateways(n).String()
			}
		}
		eventually(t, fmt.Sprintf("all routes and no other after round %d", round), func() bool { return has(client, want) })
	}
	eventually(t, "ready", f.ready)
}

// origin tells routes by numbered gateways; the kernel is one that is never killed.
type origin struct {
	number   int            // of the networks of its prefixes
	routes   map[string]int // a gateway
	add, end string         // its commands: of a prefix and a gateway
	shown    string         // what the server shows: of a gateway
	tell     func(lines ...string)
	kill     func()
	start    func(lines ...string)
}

const always = 50 // of its prefixes are never withdrawn

func (d *origin) prefix(i int) string {
	if i%2 == 0 {
		return fmt.Sprintf("10.%d.%d.0/24", d.number, i)
	}
	return fmt.Sprintf("2001:db8:%x:%x::/64", d.number, i)
}

func gateway(prefix string, number int) string {
	return bgptest.Gateway(netip.MustParsePrefix(prefix), byte(number)).String()
}

// change returns the commands.
func (d *origin) change(random *rand.Rand) (lines []string) {
	for range 20 {
		i := random.IntN(4 * always)
		prefix, hop := d.prefix(i), 2+random.IntN(9)
		if before, is := d.routes[prefix]; is && i >= always && random.IntN(2) == 0 {
			delete(d.routes, prefix)
			lines = append(lines, fmt.Sprintf(d.end, prefix, gateway(prefix, before)))
			continue
		}
		d.routes[prefix] = hop
		lines = append(lines, fmt.Sprintf(d.add, prefix, gateway(prefix, hop)))
	}
	return lines
}

func (d *origin) all() (lines []string) {
	for prefix, hop := range d.routes {
		lines = append(lines, fmt.Sprintf(d.add, prefix, gateway(prefix, hop)))
	}
	return lines
}

// A routing table of the kernel, a peer and a router with BMP change their routes. The feed, the
// server, the peer and the router are killed, one or several at once, and what changes meanwhile
// counts as well.
func TestNothingIsLostOrLeftWhenDaemonsAreKilledUnderChurn(t *testing.T) {
	bgptest.SkipUnderRaceDetector(t)
	if !sourcetest.InNamespace(t) {
		return
	}
	rounds := 50
	if testing.Short() {
		rounds = 5
	}
	sourcetest.Ip(t, "addr add 192.0.2.1/24 dev v0", "addr add 2001:db8:ff00::1/64 dev v0 nodad")
	s := startServer(t, "--store="+filepath.Join(t.TempDir(), "store"), "--store_sync=off")
	f := &feed{t: t, folder: t.TempDir()}
	f.configure(s, "sources:\n  - {name: kernel, kind: kernel, options: {}}\n"+
		"  - {name: bmp, kind: bmp, options: {listen: '127.0.0.1:11019', routers: [127.0.0.1], quiet: 3s, share: 0.5}}\n"+
		"  - {name: bgp, kind: bgp, options: {quiet: 1s, share: 0.5, file: "+
		bgptest.Write(t, "gobgp.toml", bgptest.Global(65001, "127.0.0.1", 1179)+
			bgptest.Neighbor("127.0.0.1", "127.0.0.2", 65002, 0, true, true))+"}}\n")

	kernel := &origin{number: 1, add: "route replace %s via %s", end: "route del %s via %s", shown: "via %s dev v0"}
	kernel.tell = func(lines ...string) {
		file := filepath.Join(f.folder, "batch")
		sourcetest.Check(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
		sourcetest.Command(t, "ip", "-batch", file)
	}
	speaker := func(number int, config string) *origin {
		var process *bgptest.Speaker
		return &origin{number: number, add: "add %s %s", end: "del %s %s", shown: "via %s",
			tell:  func(lines ...string) { process.Say(t, lines...) },
			kill:  func() { process.Kill() },
			start: func(lines ...string) { process = bgptest.Run(t, config, append(lines, "start")...) }}
	}
	peer := speaker(2, bgptest.Global(65002, "127.0.0.2", -1)+bgptest.Neighbor("127.0.0.2", "127.0.0.1", 65001, 1179, false, true))
	router := speaker(3, bgptest.Global(65003, "127.0.0.3", -1)+
		"[[bmp-servers]]\n[bmp-servers.config]\naddress = \"127.0.0.1\"\nport = 11019\nroute-monitoring-policy = \"local-rib\"\n")
	random := rand.New(rand.NewPCG(7, 8))
	daemons := []*origin{kernel, peer, router}
	var addresses []netip.Addr
	for _, d := range daemons {
		d.routes = map[string]int{}
		for i := range always {
			d.routes[d.prefix(i)] = 2
			addresses = append(addresses, netip.MustParsePrefix(d.prefix(i)).Addr().Next())
		}
	}
	f.run()
	kernel.tell(kernel.all()...)
	peer.start(peer.all()...)
	router.start(router.all()...)
	eventually(t, "ready", f.ready)
	answered := probe(t, s, addresses)
	client := s.client()
	for round := range rounds {
		for range 3 {
			for _, d := range daemons {
				d.tell(d.change(random)...)
			}
			time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		}
		dead := daemons[1+random.IntN(2)]
		killsServer := round%5 == 0 || round%5 == 4 || round%10 == 7
		killsFeed, killsDaemon := round%5 == 1 || round%5 == 2, round%5 >= 2
		if killsServer {
			s.stop(syscall.SIGKILL)
		}
		if killsFeed {
			f.stop(syscall.SIGKILL)
		}
		if killsDaemon {
			dead.kill()
		}
		for _, d := range daemons {
			if lines := d.change(random); d != dead || !killsDaemon {
				d.tell(lines...)
			}
		}
		if killsServer {
			s.run()
		}
		if killsFeed {
			f.run()
		}
		if killsDaemon {
			dead.start(dead.all()...)
		}
		longest := 1000
		if random.IntN(3) == 0 {
			longest = 4000 // sessions begin meanwhile
		}
		time.Sleep(time.Duration(random.IntN(longest)) * time.Millisecond)
		if round%5 != 4 {
			continue
		}
		want := map[string]string{}
		for _, d := range daemons {
			for prefix, hop := range d.routes {
				want[prefix] = fmt.Sprintf(d.shown, gateway(prefix, hop))
			}
		}
		eventually(t, fmt.Sprintf("all routes and no other after round %d", round), func() bool { return has(client, want) })
	}
	eventually(t, "ready", f.ready)
	if n := answered(); n < 20*rounds {
		t.Errorf("only %d lookups were answered", n)
	}
}
