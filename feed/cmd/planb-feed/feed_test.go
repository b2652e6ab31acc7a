// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
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

	"google.golang.org/protobuf/proto"

	planb "planb.dev/lookup/client/go"
	"planb.dev/lookup/client/go/planbv1"
	"planb.dev/lookup/feed/bgp/bgptest"
	"planb.dev/lookup/feed/source/sourcetest"
)

// The test program is planb-feed if this is in its environment: a process to kill.
const asFeed = "PLANB_TEST_AS_FEED"

func TestMain(m *testing.M) {
	if os.Getenv(asFeed) != "" {
		end := profile()
		code := run()
		end()
		os.Exit(code)
	}
	bgptest.Main(m)
}

const patience = time.Minute

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// A real server on a Unix socket.
type server struct {
	t       *testing.T
	folder  string
	flags   []string
	command *exec.Cmd
}

func startServer(t *testing.T, flags ...string) *server {
	if os.Getenv("PLANB_SERVER_BINARY") == "" {
		t.Skip("PLANB_SERVER_BINARY does not name a planb_server")
	}
	s := &server{t: t, folder: t.TempDir(), flags: flags}
	s.run()
	t.Cleanup(func() { s.stop(syscall.SIGKILL) })
	return s
}

func (s *server) target() string { return "unix://" + filepath.Join(s.folder, "socket") }

func (s *server) run() {
	s.command = exec.Command(os.Getenv("PLANB_SERVER_BINARY"), append([]string{
		"--listen=" + s.target(), "--metrics_address=", "--log_level=error"}, s.flags...)...)
	s.command.Stderr = os.Stderr
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.command.Start(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) stop(signal syscall.Signal) {
	_ = s.command.Process.Signal(signal)
	_ = s.command.Wait()
}

func (s *server) client() *planb.Client {
	client, err := planb.Dial(s.target(), planb.WithPatience(0))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

// What a route means: its next hops as text.
type meaning struct {
	text string
	id   uint32
}

// The routes of the server with what they mean; nil if it does not answer.
func list(client *planb.Client) map[string]meaning {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	means := map[uint32]string{}
	hops, err := client.Tables().ListNextHops(ctx, &planbv1.ListNextHopsRequest{})
	if err != nil {
		return nil
	}
	for message, err := hops.Recv(); err != io.EOF; message, err = hops.Recv() {
		if err != nil {
			return nil
		}
		for _, h := range message.NextHops {
			text := h.Label
			if gateway, ok := netip.AddrFromSlice(h.Gateway); ok {
				text = "via " + gateway.String()
			}
			if h.Interface != "" {
				text += " dev " + h.Interface
			}
			means[h.Id] = strings.TrimSpace(text)
		}
		for _, g := range message.Groups {
			var members []string
			for _, m := range g.Members {
				members = append(members, fmt.Sprintf("%s weight %d", means[m.NextHopId], m.Weight))
			}
			slices.Sort(members)
			means[g.Id] = strings.Join(members, " ")
		}
	}
	routes, err := client.Tables().ListRoutes(ctx, &planbv1.ListRoutesRequest{})
	if err != nil {
		return nil
	}
	all := map[string]meaning{}
	for message, err := routes.Recv(); err != io.EOF; message, err = routes.Recv() {
		if err != nil {
			return nil
		}
		for _, r := range message.Routes {
			address, _ := netip.AddrFromSlice(r.Prefix.Address)
			text, known := means[r.NextHopId]
			if !known {
				text = fmt.Sprint(r.NextHopId)
			}
			all[netip.PrefixFrom(address, int(r.Prefix.Length)).String()] = meaning{text, r.NextHopId}
		}
	}
	return all
}

// True if the server has exactly these routes: prefix -> next hops.
func has(client *planb.Client, want map[string]string) bool {
	got := list(client)
	if got == nil || len(got) != len(want) {
		return false
	}
	for prefix, text := range want {
		if got[prefix].text != text {
			return false
		}
	}
	return true
}

// A process of planb-feed with file sources; the lower its index, the more it counts.
type feed struct {
	t       *testing.T
	folder  string
	command *exec.Cmd
	pages   atomic.Pointer[string]
	times   sync.Map      // of messages in the log: when the first came
	logged  chan struct{} // closed at the end of the log
}

func newFeed(t *testing.T, s *server, sources int, more string) *feed {
	f := &feed{t: t, folder: t.TempDir()}
	text := more + "sources:\n"
	for i := range sources {
		text += fmt.Sprintf("  - name: file%d\n    kind: file\n    distance: %d\n    options: {path: %s, poll: 10ms}\n",
			i, 10+i, f.path(i))
	}
	f.configure(s, text)
	return f
}

func (f *feed) configure(s *server, text string) {
	t := f.t
	text = fmt.Sprintf("server: %s\nmetrics_address: 127.0.0.1:0\n", s.target()) + text
	sourcetest.Check(t, os.WriteFile(filepath.Join(f.folder, "feed.yaml"), []byte(text), 0o600))
	t.Cleanup(func() { f.stop(syscall.SIGKILL) })
}

func (f *feed) path(source int) string {
	return filepath.Join(f.folder, fmt.Sprintf("routes%d", source))
}

func (f *feed) write(source int, routes map[string]string) {
	var text strings.Builder
	for prefix, paths := range routes {
		fmt.Fprintln(&text, prefix, paths)
	}
	next := f.path(source) + ".next"
	if err := os.WriteFile(next, []byte(text.String()), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(next, f.path(source)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *feed) run() {
	f.command = exec.Command(os.Args[0], "--config="+filepath.Join(f.folder, "feed.yaml"))
	f.command.Env = append(os.Environ(), asFeed+"=1")
	f.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := f.command.StderrPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.command.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.logged = make(chan struct{})
	go func() {
		defer close(f.logged)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			var line struct{ Msg, Address string }
			f.t.Log(lines.Text())
			if json.Unmarshal(lines.Bytes(), &line) != nil {
				f.t.Error("no JSON")
			} else if line.Msg == "pages are served" {
				f.pages.Store(&line.Address)
			}
			f.times.LoadOrStore(line.Msg, time.Now())
		}
	}()
}

func (f *feed) stop(signal syscall.Signal) {
	if f.command != nil {
		_ = f.command.Process.Signal(signal)
		<-f.logged
		_ = f.command.Wait()
		f.command = nil
		f.pages.Store(nil)
	}
}

func (f *feed) page(path string) string {
	address := f.pages.Load()
	if address == nil {
		return ""
	}
	response, err := http.Get("http://" + *address + path)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body)
	return string(body)
}

func (f *feed) ready() bool { return f.page("/readyz") == "ready\n" }

// The accepted one, of which the server lists the routes and says that it is complete.
// Lookups see it a moment later.
func generation(t *testing.T, client *planb.Client) uint64 {
	table, err := client.Table(t.Context())
	sourcetest.Check(t, err)
	return table.AcceptedGeneration
}

func TestAServerHasWhatTheFilesSayAndGetsDifferences(t *testing.T) {
	s := startServer(t, "--store=none")
	f := newFeed(t, s, 2, "")
	f.write(0, map[string]string{"2001:db8::/32": "via fe80::1 dev eth0", "10.0.0.0/8": "7"})
	f.run()
	client := s.client()
	eventually(t, "the first file", func() bool { return len(list(client)) == 2 })
	if f.ready() {
		t.Error("ready, but the second file was never read")
	}
	f.write(1, map[string]string{"10.0.0.0/8": "8", "::/0": "via 192.0.2.1 weight 2 via 192.0.2.2"})
	eventually(t, "ready", f.ready)
	eventually(t, "complete", func() bool {
		table, err := client.Table(t.Context())
		return err == nil && table.CompleteSinceUnixNanos > 0
	})
	want := map[string]string{"2001:db8::/32": "via fe80::1 dev eth0", "10.0.0.0/8": "7",
		"::/0": "via 192.0.2.1 weight 2 via 192.0.2.2 weight 1"}
	if !has(client, want) {
		t.Fatal(list(client))
	}
	before := generation(t, client)
	f.write(1, map[string]string{"10.0.0.0/8": "8", "::/0": "via 192.0.2.2 via 192.0.2.1 weight 2"})
	f.write(0, map[string]string{"2001:db8::/32": "via fe80::1 dev eth0"})
	want["10.0.0.0/8"] = "8"
	eventually(t, "the second source counts", func() bool { return has(client, want) })
	if now := generation(t, client); now != before+1 {
		t.Errorf("one change made %d generations", now-before)
	}
	if metrics := f.page("/metrics"); !strings.Contains(metrics, `planb_feed_source_routes{source="file1"} 2`) ||
		!strings.Contains(metrics, "planb_feed_ready 1") {
		t.Error(metrics)
	}
}

func TestSystemdIsToldOfTheStartAndOfWhatIsWaitedFor(t *testing.T) {
	s := startServer(t, "--store=none")
	f := newFeed(t, s, 1, "")
	name := filepath.Join(f.folder, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	sourcetest.Check(t, err)
	defer func() { _ = manager.Close() }()
	t.Setenv("NOTIFY_SOCKET", name)
	f.run()
	expect := func(want string) {
		t.Helper()
		_ = manager.SetReadDeadline(time.Now().Add(patience))
		for message := make([]byte, 1024); ; {
			n, err := manager.Read(message)
			if err != nil {
				t.Fatalf("%v before %q", err, want)
			}
			if string(message[:n]) == want {
				return
			}
		}
	}
	expect("READY=1\nSTATUS=not every source has told all") // there is no file yet
	f.write(0, map[string]string{"10.0.0.0/8": "7"})
	expect("READY=1\nSTATUS=ready")
	f.command.Process.Signal(syscall.SIGTERM)
	expect("STOPPING=1")
}

func TestIdsAreTheSameAfterBothSidesForgotEverything(t *testing.T) {
	s := startServer(t, "--store=none")
	f := newFeed(t, s, 1, "")
	routes := map[string]string{}
	for i := range 50 {
		routes[fmt.Sprintf("10.%d.0.0/16", i)] = fmt.Sprintf("via 192.0.2.%d via 198.51.100.%d", 1+i, 1+i%7)
	}
	f.write(0, routes)
	f.run()
	client := s.client()
	eventually(t, "ready", f.ready)
	before := list(client)
	f.stop(syscall.SIGKILL)
	s.stop(syscall.SIGKILL)
	s.run()
	f.run()
	eventually(t, "ready again", f.ready)
	for prefix, was := range before {
		if is := list(client)[prefix]; is != was {
			t.Fatalf("%s: %v, not %v", prefix, is, was)
		}
	}
}

// A real peer, and what it says as a next hop of a real server.
func TestAttributesOfAPeerMakeIdsThatStay(t *testing.T) {
	t.Parallel() // waits for timers most of the time
	s := startServer(t, "--store=none")
	f := newFeed(t, s, 0, "")
	port := bgptest.FreePort(t, "127.0.0.1")
	gobgp := bgptest.Write(t, "gobgp.toml", bgptest.Global(65001, "127.0.0.1", port)+
		bgptest.Neighbor("127.0.0.1", "127.0.0.2", 65002, 0, true, true))
	f.configure(s, "sources: [{name: bgp, kind: bgp, options: {attributes: full, quiet: 300ms, file: "+gobgp+"}}]\n")
	f.run()
	const same = " 198.51.100.1 path 64500,4200000000 communities 65535,7 large 1:2:3"
	bgptest.Start(t, "127.0.0.2", port, true, "add 192.0.2.0/24"+same, "add 203.0.113.0/24"+same,
		"add 10.0.0.0/8 198.51.100.1", "add 10.1.0.0/16 198.51.100.1 path 64500")
	eventually(t, "ready", f.ready)
	client := s.client()
	before := list(client)
	if len(before) != 4 || before["192.0.2.0/24"] != before["203.0.113.0/24"] || before["10.0.0.0/8"].id == before["10.1.0.0/16"].id {
		t.Fatal(before)
	}
	explained, err := client.Tables().ExplainLookup(t.Context(), &planbv1.ExplainLookupRequest{Text: "192.0.2.1"})
	want := &planbv1.Attributes{OriginAs: 4200000000, Communities: []uint32{7, 65535},
		AsPath:           []*planbv1.Attributes_Segment{{Numbers: []uint32{65002, 64500, 4200000000}}},
		LargeCommunities: []*planbv1.Attributes_LargeCommunity{{GlobalAdministrator: 1, LocalData_1: 2, LocalData_2: 3}}}
	if err != nil || !proto.Equal(explained.NextHop.GetAttributes(), want) {
		t.Errorf("%v, not %v (%v)", explained.GetNextHop(), want, err)
	}
	was := generation(t, client)
	for _, forgets := range []bool{false, true} {
		f.stop(syscall.SIGKILL)
		if forgets {
			s.stop(syscall.SIGKILL)
			s.run()
		}
		f.run()
		eventually(t, "ready again", f.ready)
		if now := list(client); !maps.Equal(now, before) {
			t.Errorf("%v, not %v", now, before)
		}
		if now := generation(t, client); !forgets && now != was {
			t.Errorf("a restart of the feed made %d generations", now-was)
		}
	}
}

func TestAServerWithOtherContentsIsMadeEqual(t *testing.T) {
	s := startServer(t, "--store=none")
	f := newFeed(t, s, 1, "")
	f.write(0, map[string]string{"10.0.0.0/8": "via 192.0.2.1", "10.1.0.0/16": "via 192.0.2.2"})
	f.run()
	client := s.client()
	eventually(t, "ready", f.ready)
	was := list(client)
	s.stop(syscall.SIGKILL)
	f.stop(syscall.SIGKILL)
	s.run()
	eventually(t, "the server serves", func() bool { return list(client) != nil })
	// The ids of before mean something else here, and one meaning has another id.
	_, err := client.Tables().UpdateRoutes(t.Context(), &planbv1.UpdateRoutesRequest{
		NextHops: []*planbv1.NextHop{{Id: was["10.0.0.0/8"].id, Label: "other"}, {Id: 5, Gateway: []byte{192, 0, 2, 2}}},
		Updates: []*planbv1.RouteUpdate{
			{Op: planbv1.RouteUpdate_OP_UPSERT, Prefix: &planbv1.Prefix{Text: "10.0.0.0/8"}, NextHopId: was["10.0.0.0/8"].id},
			{Op: planbv1.RouteUpdate_OP_UPSERT, Prefix: &planbv1.Prefix{Text: "::/0"}, NextHopId: 9}}})
	sourcetest.Check(t, err)
	f.run()
	eventually(t, "equal", func() bool {
		return has(client, map[string]string{"10.0.0.0/8": "via 192.0.2.1", "10.1.0.0/16": "via 192.0.2.2"})
	})
	if is := list(client)["10.1.0.0/16"].id; is != 5 {
		t.Errorf("the next hop of the server is not used: %d", is)
	}
}

func TestRoutesOfAFileThatIsGoneStayForTheStaleTime(t *testing.T) {
	t.Parallel() // waits for timers most of the time
	s := startServer(t, "--store=none")
	f := newFeed(t, s, 2, "stale_time: 10s\n")
	f.write(0, map[string]string{"10.0.0.0/8": "1"})
	f.write(1, map[string]string{"10.1.0.0/16": "2"})
	f.run()
	client := s.client()
	eventually(t, "ready", f.ready)
	gone := time.Now()
	sourcetest.Check(t, os.Remove(f.path(0)))
	eventually(t, "withdrawn", func() bool { return has(client, map[string]string{"10.1.0.0/16": "2"}) })
	if after := time.Since(gone); after < 10*time.Second {
		t.Errorf("withdrawn after %s", after)
	}
	f.write(0, map[string]string{"10.0.0.0/8": "1"})
	eventually(t, "back", func() bool { return len(list(client)) == 2 })
	// A file that cannot be read changes nothing.
	f.write(0, map[string]string{"10.0.0.0/8": "1", "10.1.2.3/8": "1"})
	f.write(1, map[string]string{})
	time.Sleep(100 * time.Millisecond)
	if len(list(client)) != 2 {
		t.Error(list(client))
	}
}

func TestASweepThatIsHeldGoesAfterSIGUSR1(t *testing.T) {
	s := startServer(t, "--store=none")
	f := newFeed(t, s, 1, "")
	routes, few := map[string]string{}, map[string]string{"192.0.2.0/24": "1"}
	for i := range 1500 {
		routes[fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)] = "1"
	}
	f.write(0, routes)
	f.run()
	client := s.client()
	eventually(t, "ready", f.ready)
	f.write(0, few)
	eventually(t, "the sweep is held", func() bool { return strings.Contains(f.page("/metrics"), "planb_feed_held_routes 1500\n") })
	eventually(t, "the new route", func() bool { return list(client)["192.0.2.0/24"].id == 1 })
	if count := len(list(client)); count != 1501 {
		t.Errorf("%d routes while the sweep is held", count)
	}
	f.command.Process.Signal(syscall.SIGUSR1)
	eventually(t, "what was held goes", func() bool { return has(client, few) })
}

func TestAFeedThatAnotherOneReplacedWritesNoMore(t *testing.T) {
	s := startServer(t, "--store=none")
	first, second := newFeed(t, s, 1, ""), newFeed(t, s, 1, "")
	first.write(0, map[string]string{"10.0.0.0/8": "1"})
	second.write(0, map[string]string{"10.0.0.0/8": "2"})
	first.run()
	eventually(t, "the first is ready", first.ready)
	second.run()
	eventually(t, "the second is ready", second.ready)
	first.write(0, map[string]string{"10.0.0.0/8": "3"})
	eventually(t, "the first is fenced", func() bool {
		return strings.Contains(first.page("/readyz"), "another writer")
	})
	if client := s.client(); !has(client, map[string]string{"10.0.0.0/8": "2"}) {
		t.Error(list(client))
	}
}

// What an old stream left on the way is then refused, and changes nothing after the list.
func TestEachConnectionTakesTheTableAnew(t *testing.T) {
	s := startServer(t, "--store="+filepath.Join(t.TempDir(), "store"))
	f := newFeed(t, s, 1, "")
	f.write(0, map[string]string{"10.0.0.0/8": "1"})
	f.run()
	eventually(t, "ready", f.ready)
	client := s.client()
	epoch := func() uint64 {
		table, err := client.Table(t.Context())
		if err != nil {
			return 0
		}
		return table.WriterEpoch
	}
	before := epoch()
	s.stop(syscall.SIGTERM)
	s.run()
	eventually(t, "a higher epoch", func() bool { return epoch() > before })
	_, err := client.Announce(t.Context(), map[netip.Prefix]uint32{netip.MustParsePrefix("10.0.0.0/8"): 2})
	if planb.ReasonOf(err) != "WRITER_FENCED" {
		t.Error(err)
	}
}

func TestANextHopThatWasPrunedIsDescribedAgain(t *testing.T) {
	s := startServer(t, "--store=none")
	f := newFeed(t, s, 1, "")
	client := s.client()
	f.run()
	var first uint32
	for _, gateway := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.1"} {
		f.write(0, map[string]string{"10.0.0.0/8": "via " + gateway})
		eventually(t, gateway, func() bool { return has(client, map[string]string{"10.0.0.0/8": "via " + gateway}) })
		if gateway == "192.0.2.1" {
			first = list(client)["10.0.0.0/8"].id
			continue
		}
		table, err := client.Table(t.Context())
		sourcetest.Check(t, err)
		if _, err := client.Tables().UpdateNextHops(t.Context(), &planbv1.UpdateNextHopsRequest{
			DeleteIds: []uint32{first}, WriterEpoch: table.WriterEpoch}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatNoRouteNamesIsRemovedAfterTheGrace(t *testing.T) {
	t.Parallel() // waits for timers most of the time
	s := startServer(t, "--store=none")
	f := newFeed(t, s, 1, "object_grace: 1s\n")
	client := s.client()
	f.write(0, map[string]string{"10.0.0.0/8": "via 192.0.2.1 via 192.0.2.2", "11.0.0.0/8": "via 192.0.2.3"})
	f.run()
	eventually(t, "ready", f.ready)
	if _, err := client.Tables().UpdateNextHops(t.Context(), &planbv1.UpdateNextHopsRequest{WriterEpoch: 1 << 63,
		Upserts: []*planbv1.NextHop{{Id: 7, Label: "of another writer"}, {Id: 1<<24 + 1, Label: "of an earlier run"}}}); err != nil {
		t.Fatal(err)
	}
	f.stop(syscall.SIGKILL)
	f.run()
	objects := func() (next, groups uint64) {
		table, err := client.Table(t.Context())
		if err != nil {
			return 0, 0
		}
		return table.NextHops, table.Groups
	}
	eventually(t, "what nothing names goes, and no other", func() bool {
		hops, groups := objects()
		return hops == 4 && groups == 1
	})
	f.write(0, map[string]string{"11.0.0.0/8": "via 192.0.2.3"})
	changed := time.Now()
	eventually(t, "the group and then its members go", func() bool {
		hops, groups := objects()
		return hops == 2 && groups == 0
	})
	if took := time.Since(changed); took < 2*time.Second {
		t.Errorf("the grace was %s", took)
	}
	f.write(0, map[string]string{"10.0.0.0/8": "via 192.0.2.1 via 192.0.2.2", "11.0.0.0/8": "via 192.0.2.3"})
	eventually(t, "they are described again", func() bool {
		return has(client, map[string]string{"10.0.0.0/8": "via 192.0.2.1 weight 1 via 192.0.2.2 weight 1", "11.0.0.0/8": "via 192.0.2.3"})
	})
	if metrics := f.page("/metrics"); !strings.Contains(metrics, "planb_feed_unused_objects_removed_total 4") ||
		!strings.Contains(metrics, "planb_feed_resyncs_total 1") {
		t.Error(metrics)
	}
}

func TestAServerThatIsFullIsTriedAgain(t *testing.T) {
	s := startServer(t, "--store=none", "--max_routes=10")
	f := newFeed(t, s, 1, "")
	routes := map[string]string{}
	for i := range 11 {
		routes[fmt.Sprintf("10.%d.0.0/16", i)] = "1"
	}
	f.write(0, routes)
	f.run()
	client := s.client()
	eventually(t, "what fits is there", func() bool { return len(list(client)) == 10 })
	eventually(t, "refused", func() bool {
		metrics := f.page("/metrics")
		return strings.Contains(metrics, "planb_feed_rejected_batches_total") &&
			!strings.Contains(metrics, "planb_feed_rejected_batches_total 0") && !f.ready()
	})
	delete(routes, "10.10.0.0/16")
	f.write(0, routes)
	eventually(t, "ready", f.ready)
}

// probe looks up what always has an answer. `end` ends that, and returns how often the server
// answered.
func probe(t *testing.T, s *server, addresses []netip.Addr) (end func() int) {
	ctx, cancel := context.WithCancel(t.Context())
	answered, done := 0, make(chan struct{})
	client := s.client()
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			answers, err := client.Lookup(ctx, addresses)
			if err != nil {
				time.Sleep(5 * time.Millisecond)
				continue
			}
			if at := slices.Index(answers, 0); at >= 0 {
				t.Errorf("%s has no answer after %d lookups", addresses[at], answered)
				return
			}
			answered++
			time.Sleep(time.Millisecond)
		}
	}()
	end = func() int {
		cancel()
		<-done
		return answered
	}
	t.Cleanup(func() { end() })
	return end
}

// Changes files while both sides are killed.
func TestNothingIsLostWhenEitherSideIsKilledUnderChurn(t *testing.T) {
	rounds := 50
	if testing.Short() {
		rounds = 6
	}
	s := startServer(t, "--store="+filepath.Join(t.TempDir(), "store"), "--store_sync=off")
	f := newFeed(t, s, 2, "")
	random := rand.New(rand.NewPCG(3, 4))
	const stable = 250
	files := []map[string]string{{}, {}}
	hop := func() string { return fmt.Sprintf("via 192.0.2.%d", 1+random.IntN(9)) }
	change := func() {
		for range 30 {
			// Either file has a stable prefix; the others come and go.
			prefix := fmt.Sprintf("10.0.%d.0/24", random.IntN(stable))
			files[1][prefix] = hop()
			if random.IntN(2) == 0 {
				files[0][prefix] = hop()
			} else {
				delete(files[0], prefix)
			}
			prefix = fmt.Sprintf("2001:db8:%x::/48", 1+random.IntN(500))
			if random.IntN(2) == 0 {
				files[random.IntN(2)][prefix] = hop()
			} else {
				delete(files[random.IntN(2)], prefix)
			}
		}
		f.write(0, files[0])
		f.write(1, files[1])
	}
	for i := range stable {
		files[1][fmt.Sprintf("10.0.%d.0/24", i)] = hop()
	}
	files[0]["192.0.2.0/24"] = "1" // a file without routes is not taken
	change()
	f.run()
	eventually(t, "ready", f.ready)

	var addresses []netip.Addr
	for i := range stable {
		addresses = append(addresses, netip.AddrFrom4([4]byte{10, 0, byte(i), 1}))
	}
	answered := probe(t, s, addresses)
	for range rounds {
		for range 4 {
			change()
			time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
		}
		switch random.IntN(4) {
		case 0:
			s.stop(syscall.SIGTERM)
			change()
			s.run()
		case 1:
			s.stop(syscall.SIGKILL)
			change()
			s.run()
		default:
			f.stop(syscall.SIGKILL)
			change()
			f.run()
		}
		if random.IntN(2) == 0 {
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		}
	}
	want := map[string]string{}
	for _, file := range []map[string]string{files[1], files[0]} {
		for prefix, text := range file {
			want[prefix] = text
		}
	}
	client := s.client()
	eventually(t, "all routes and no other", func() bool { return has(client, want) })
	eventually(t, "ready", f.ready)
	if n := answered(); n < 20*rounds {
		t.Errorf("only %d lookups were answered", n)
	}
}
