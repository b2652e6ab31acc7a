// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/packet/bmp"
	"golang.org/x/sys/unix"

	planb "planb.dev/lookup/client/go"
	"planb.dev/lookup/feed/bgp/bgptest"
	"planb.dev/lookup/feed/source/sourcetest"
)

// profile writes a profile of the processor's time of a feed until it ends, if the
// environment names a file for it.
func profile() (end func()) {
	name := os.Getenv("PLANB_FEED_PROFILE")
	if name == "" {
		return func() {}
	}
	file, err := os.Create(name)
	if err == nil {
		err = pprof.StartCPUProfile(file)
	}
	if err != nil {
		panic(err)
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}
}

// teller is the far side of a source.
type teller interface {
	// The source's section of the configuration.
	section(t *testing.T) string
	// Begins to tell the tables. Returns when that was, once it is known.
	begin(t *testing.T, f *feed, tables []string) func() time.Time
	// Tells changes.
	change(t *testing.T, changes []change)
}

type change struct {
	prefix netip.Prefix
	hop    byte
}

// TestMeasure is what measure.sh runs; see there.
func TestMeasure(t *testing.T) {
	tables := strings.Fields(os.Getenv("PLANB_FEED_TABLES"))
	if len(tables) == 0 {
		t.Skip("skipped: PLANB_FEED_TABLES names no tables")
	}
	if os.Getenv("PLANB_FEED_LOOKUPS") != "" {
		_, err := exec.LookPath(os.Getenv("PLANB_PLANBCTL_BINARY"))
		sourcetest.Check(t, err)
	}
	tellers := map[string]func() teller{
		"file":     func() teller { return &fileTeller{} },
		"kernel":   func() teller { return &kernelTeller{} },
		"fpm":      func() teller { return &fpmTeller{} },
		"bgp":      func() teller { return &bgpTeller{} },
		"bgp:wire": func() teller { return &wireTeller{} },
		"bmp":      func() teller { return &bmpTeller{} },
	}
	fmt.Println("source    routes   objects  visible  processor  server's  peer's  memory  server's  lookups  p50      p99      load")
	for _, kind := range strings.Fields(os.Getenv("PLANB_FEED_KINDS")) {
		measure(t, kind, tellers[kind](), tables)
	}
}

func load(t *testing.T) string {
	text, err := os.ReadFile("/proc/loadavg")
	sourcetest.Check(t, err)
	return strings.Fields(string(text))[0]
}

// prefixesOf reads tables: a prefix and a number a line.
func prefixesOf(t *testing.T, tables []string) (prefixes []netip.Prefix, hops []byte) {
	for _, table := range tables {
		file, err := os.Open(table)
		sourcetest.Check(t, err)
		defer func() { _ = file.Close() }()
		for scanner := bufio.NewScanner(file); scanner.Scan(); {
			prefix, hop, _ := strings.Cut(scanner.Text(), " ")
			number, err := strconv.ParseUint(hop, 10, 8)
			sourcetest.Check(t, err)
			prefixes, hops = append(prefixes, netip.MustParsePrefix(prefix)), append(hops, byte(number))
		}
	}
	return prefixes, hops
}

func measure(t *testing.T, kind string, from teller, tables []string) {
	prefixes, _ := prefixesOf(t, tables)
	before := load(t)
	s := startServer(t, "--store=none")
	f := &feed{t: t, folder: t.TempDir()}
	options := from.section(t)
	source, _, _ := strings.Cut(kind, ":")
	if attributes := os.Getenv("PLANB_FEED_ATTRIBUTES"); attributes != "" {
		options += ", attributes: " + attributes
	}
	f.configure(s, fmt.Sprintf("sources:\n  - {name: measured, kind: %s, options: {%s}}\n", source, options))
	f.run()
	client := s.client()
	eventually(t, "the server is followed", func() bool { return strings.Contains(f.page("/metrics"), "planb_feed_connected 1") })
	began := from.begin(t, f, tables)
	objects := uint64(0)
	visible := func() bool {
		table, err := client.Table(t.Context())
		objects = table.GetNextHops()
		return err == nil && table.VisibleGeneration == table.AcceptedGeneration &&
			table.RoutesV4+table.RoutesV6 == uint64(len(prefixes))
	}
	beforeUp := 0.0 // the peer's, for its own table
	for end := time.Now().Add(10 * time.Minute); !visible(); time.Sleep(10 * time.Millisecond) {
		if b, ok := from.(*bgpTeller); ok && beforeUp == 0 {
			if _, up := f.times.Load("Peer Up"); up {
				beforeUp = processorTime(t, b.speaker.Process())
			}
		}
		if time.Now().After(end) {
			t.Fatal("not all routes are visible after ten minutes")
		}
	}
	took := time.Since(began())
	processor, servers, peers := processorTime(t, f.command.Process), processorTime(t, s.command.Process), "-"
	if b, ok := from.(*bgpTeller); ok {
		peers = fmt.Sprintf("%.2fs", processorTime(t, b.speaker.Process())-beforeUp)
	}
	p50, p99 := "-", "-"
	if seconds, _ := strconv.Atoi(os.Getenv("PLANB_FEED_SECONDS")); seconds > 0 && kind != "file" {
		// A session that tells all has larger batches.
		for end := time.Now().Add(2 * time.Minute); !f.ready() && time.Now().Before(end); {
			time.Sleep(100 * time.Millisecond)
		}
		lags := churn(t, client, from, prefixes, time.Duration(seconds)*time.Second)
		p50, p99 = lags[len(lags)/2].String(), lags[len(lags)*99/100].String()
	}
	lookups := "-"
	if seconds := os.Getenv("PLANB_FEED_LOOKUPS"); seconds != "" {
		lookups = rateOfLookups(t, s, seconds, tables[0], prefixes[0].Addr().Is4())
	}
	fmt.Printf("%-8s  %7d  %7d  %6.2fs  %8.2fs  %7.2fs  %6s  %4dMB  %6dMB  %7s  %-7s  %-7s  %s to %s\n", kind, len(prefixes), objects, took.Seconds(),
		processor, servers, peers, peakMemory(t, f.command)>>10, peakMemory(t, s.command)>>10, lookups, p50, p99, before, load(t))
	f.stop(unix.SIGTERM)
	s.stop(unix.SIGKILL)
}

const (
	rate = 5000 // changes a second
	tick = 10 * time.Millisecond
)

// churn changes random routes, and measures from the change of one of them until a lookup
// tells it.
func churn(t *testing.T, client *planb.Client, from teller, prefixes []netip.Prefix, during time.Duration) []time.Duration {
	random := rand.New(rand.NewPCG(1, 2))
	probed := netip.MustParsePrefix("3fff:ffff::/32")
	answer := func() uint32 {
		answers, err := client.Lookup(t.Context(), []netip.Addr{probed.Addr()})
		sourcetest.Check(t, err)
		return answers[0]
	}
	// Taken while no probe runs.
	probes, lags := make(chan time.Time), make(chan time.Duration, 1<<20)
	last := answer()
	probing := make(chan struct{})
	go func() {
		defer close(probing)
		for at := range probes {
			now := answer()
			for ; now == last; now = answer() {
				time.Sleep(time.Millisecond)
			}
			lags <- time.Since(at).Round(100 * time.Microsecond)
			last = now
		}
	}()
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	began, told, hop := time.Now(), 0, byte(0)
	for time.Since(began) < during {
		<-ticks.C
		var changes []change
		for ; told < int(time.Since(began)*rate/time.Second); told++ {
			changes = append(changes, change{prefixes[random.IntN(len(prefixes))], byte(1 + random.IntN(64))})
		}
		now := time.Now()
		select {
		case probes <- now:
			hop++
			changes = append(changes, change{probed, 100 + hop%2})
		default:
		}
		from.change(t, changes)
	}
	close(probes)
	<-probing
	close(lags)
	var result []time.Duration
	for lag := range lags {
		result = append(result, lag)
	}
	if len(result) == 0 {
		t.Fatal("no change was seen")
	}
	slices.Sort(result)
	return result
}

// processorTime is in seconds.
func processorTime(t *testing.T, process *os.Process) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process.Pid))
	sourcetest.Check(t, err)
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return float64(user+system) / 100
}

// rateOfLookups is that of planbctl bench, in millions a second, of addresses of a table.
func rateOfLookups(t *testing.T, s *server, seconds, table string, v4 bool) string {
	family := "ipv6"
	if v4 {
		family = "ipv4"
	}
	out, err := exec.Command(os.Getenv("PLANB_PLANBCTL_BINARY"), "--server="+s.target(),
		"bench", "--json", "--quiet", "--trace=match", "--seconds="+seconds, "--routes="+table, "--family="+family).Output()
	sourcetest.Check(t, err)
	var result struct {
		Rate   float64 `json:"lookups_per_second"`
		Misses int
	}
	sourcetest.Check(t, json.Unmarshal(out, &result))
	if result.Misses != 0 {
		t.Errorf("%d lookups have no answer", result.Misses)
	}
	return fmt.Sprintf("%.1fM", result.Rate/1e6)
}

// peakMemory is in kilobytes.
func peakMemory(t *testing.T, command *exec.Cmd) (kilobytes int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", command.Process.Pid))
	sourcetest.Check(t, err)
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kilobytes, _ = strconv.Atoi(strings.Fields(rest)[0])
	return kilobytes
}

func since(at time.Time) func() time.Time { return func() time.Time { return at } }

// A file that another one is moved to.
type fileTeller struct{ path string }

func (f *fileTeller) section(t *testing.T) string {
	f.path = filepath.Join(t.TempDir(), "routes")
	return "poll: 10ms, path: " + f.path
}

func (f *fileTeller) begin(t *testing.T, _ *feed, tables []string) func() time.Time {
	var text strings.Builder
	prefixes, hops := prefixesOf(t, tables)
	for i, prefix := range prefixes {
		fmt.Fprintf(&text, "%s via %s\n", prefix, bgptest.Gateway(prefix, hops[i]))
	}
	sourcetest.Check(t, os.WriteFile(f.path+".next", []byte(text.String()), 0o600))
	sourcetest.Check(t, os.Rename(f.path+".next", f.path))
	return since(time.Now())
}

func (f *fileTeller) change(*testing.T, []change) {}

// A network namespace, which has all routes before the feed finds it.
type kernelTeller struct {
	path, folder string
	changes      io.WriteCloser // of an iproute2 in it
}

func (k *kernelTeller) section(t *testing.T) string {
	if os.Geteuid() != 0 {
		t.Skip("skipped: a network namespace needs root")
	}
	k.folder = t.TempDir()
	k.path = filepath.Join(k.folder, "namespace")
	return "namespace: " + k.path
}

func (k *kernelTeller) begin(t *testing.T, f *feed, tables []string) func() time.Time {
	holder := exec.Command("unshare", "--net", "sleep", "infinity")
	holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	sourcetest.Check(t, holder.Start())
	t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	namespace := fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid)
	own, err := os.Readlink("/proc/self/ns/net")
	sourcetest.Check(t, err)
	eventually(t, "a namespace", func() bool {
		other, err := os.Readlink(namespace)
		return err == nil && other != own
	})
	in := []string{"nsenter", "--net=" + namespace, "ip", "-batch"}
	prefixes, hops := prefixesOf(t, tables)
	var text strings.Builder
	text.WriteString("link add v0 type veth peer name v1\nlink set v0 up\nlink set v1 up\n" +
		"addr add 192.0.2.254/24 dev v0\naddr add 2001:db8:ff00::ffff/64 dev v0 nodad\n")
	for i, prefix := range prefixes {
		fmt.Fprintf(&text, "route add %s via %s dev v0\n", prefix, bgptest.Gateway(prefix, hops[i]))
	}
	batch := filepath.Join(k.folder, "batch")
	sourcetest.Check(t, os.WriteFile(batch, []byte(text.String()), 0o600))
	sourcetest.Command(t, append(in, batch)...)
	changes := exec.Command(in[0], append(in[1:], "-")...)
	changes.SysProcAttr = holder.SysProcAttr
	changes.Stderr = os.Stderr
	k.changes, err = changes.StdinPipe()
	sourcetest.Check(t, err)
	sourcetest.Check(t, changes.Start())
	t.Cleanup(func() { _ = k.changes.Close(); _ = changes.Wait() })
	sourcetest.Check(t, os.Symlink(namespace, k.path))
	return func() time.Time {
		at, _ := f.times.Load("reading the table")
		return at.(time.Time)
	}
}

func (k *kernelTeller) change(t *testing.T, changes []change) {
	var text strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&text, "route replace %s via %s dev v0\n", c.prefix, bgptest.Gateway(c.prefix, c.hop))
	}
	_, err := io.WriteString(k.changes, text.String())
	sourcetest.Check(t, err)
}

// A connection on which changes are told.
type wire struct {
	port       int
	connection net.Conn
	encode     func(b []byte, prefix netip.Prefix, gateway netip.Addr) []byte
}

// start says hello, and tells the tables.
func (w *wire) start(t *testing.T, hello []byte, tables []string) func() time.Time {
	prefixes, hops := prefixesOf(t, tables)
	all := make([]change, len(prefixes))
	for i, prefix := range prefixes {
		all[i] = change{prefix, hops[i]}
	}
	var connection net.Conn
	eventually(t, "the source listens", func() (ok bool) {
		var err error
		connection, err = net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", w.port))
		return err == nil
	})
	t.Cleanup(func() { _ = connection.Close() })
	w.connection = connection
	began := time.Now()
	if _, err := connection.Write(hello); err != nil {
		t.Fatal(err)
	}
	w.change(t, all)
	return since(began)
}

func (w *wire) change(t *testing.T, changes []change) {
	writer := bufio.NewWriterSize(w.connection, 1<<16)
	var message []byte
	for _, c := range changes {
		message = w.encode(message[:0], c.prefix, bgptest.Gateway(c.prefix, c.hop))
		if _, err := writer.Write(message); err != nil {
			t.Fatal(err)
		}
	}
	sourcetest.Check(t, writer.Flush())
}

// A connection as zebra's.
type fpmTeller struct{ wire }

func (f *fpmTeller) section(t *testing.T) string {
	f.port = bgptest.FreePort(t, "127.0.0.1")
	return fmt.Sprintf("listen: 127.0.0.1:%d", f.port)
}

func (f *fpmTeller) begin(t *testing.T, _ *feed, tables []string) func() time.Time {
	f.encode = appendFrame
	return f.start(t, nil, tables)
}

// appendFrame appends a frame with a route.
func appendFrame(b []byte, prefix netip.Prefix, gateway netip.Addr) []byte {
	family := byte(unix.AF_INET6)
	if prefix.Addr().Is4() {
		family = unix.AF_INET
	}
	attribute := func(kind uint16, data []byte) {
		b = binary.NativeEndian.AppendUint16(b, uint16(4+len(data)))
		b = binary.NativeEndian.AppendUint16(b, kind)
		b = append(b, data...)
	}
	start := len(b)
	b = append(b, 1, 1, 0, 0)
	b = append(b, make([]byte, unix.NLMSG_HDRLEN)...)
	b = append(b, family, byte(prefix.Bits()), 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_BGP, 0, unix.RTN_UNICAST, 0, 0, 0, 0)
	attribute(unix.RTA_DST, prefix.Addr().AsSlice())
	attribute(unix.RTA_PRIORITY, []byte{20, 0, 0, 0})
	attribute(unix.RTA_GATEWAY, gateway.AsSlice())
	binary.BigEndian.PutUint16(b[start+2:], uint16(len(b)-start))
	binary.NativeEndian.PutUint32(b[start+4:], uint32(len(b)-start-4))
	binary.NativeEndian.PutUint16(b[start+8:], unix.RTM_NEWROUTE)
	return b
}

// A connection of a router that tells its Loc-RIB as GoBGP does: a message each route.
type bmpTeller struct{ wire }

func (b *bmpTeller) section(t *testing.T) string {
	b.port = bgptest.FreePort(t, "127.0.0.1")
	return fmt.Sprintf("listen: '127.0.0.1:%d', routers: [127.0.0.1]", b.port)
}

func (b *bmpTeller) begin(t *testing.T, _ *feed, tables []string) func() time.Time {
	id := netip.MustParseAddr("192.0.2.1")
	header := *bmp.NewBMPPeerHeader(bmp.BMP_PEER_TYPE_LOCAL_RIB, 0, 0, netip.Addr{}, 65001, id, 0)
	open, err := bgp.NewBGPOpenMessage(65001, 90, id, nil)
	sourcetest.Check(t, err)
	serialize := func(message *bmp.BMPMessage) []byte {
		bytes, err := message.Serialize()
		sourcetest.Check(t, err)
		return bytes
	}
	b.encode = func(to []byte, prefix netip.Prefix, gateway netip.Addr) []byte {
		family := bgp.RF_IPv6_UC
		if prefix.Addr().Is4() {
			family = bgp.RF_IPv4_UC
		}
		nlri, err := bgp.NewIPAddrPrefix(prefix)
		sourcetest.Check(t, err)
		reach, err := bgp.NewPathAttributeMpReachNLRI(family, []bgp.PathNLRI{{NLRI: nlri}}, gateway)
		sourcetest.Check(t, err)
		path := bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{
			bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{64500, bgptest.Origin(prefix)})})
		return append(to, serialize(bmp.NewBMPRouteMonitoring(header, bgp.NewBGPUpdateMessage(nil,
			[]bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(0), path, reach}, nil)))...)
	}
	return b.start(t, append(serialize(bmp.NewBMPInitiation(nil)),
		serialize(bmp.NewBMPPeerUpNotification(header, netip.IPv4Unspecified(), 0, 0, open, open))...), tables)
}
