// SPDX-License-Identifier: Apache-2.0

// Package bgptest has second BGP speakers for tests: a process of GoBGP each.
package bgptest

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	bgpconfig "github.com/osrg/gobgp/v4/pkg/config"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"
)

// A second speaker is this program with a file of GoBGP in its environment: what is
// global in GoBGP is not shared, and it can be killed.
const speakerFile = "PLANB_FEED_TEST_SPEAKER"

// Main is a TestMain for tests that start speakers.
func Main(m *testing.M) {
	if file := os.Getenv(speakerFile); file != "" {
		if err := speak(file, os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// speak takes lines: "add PREFIX GATEWAY", with "path AS,AS", "communities N,N" or "large
// N:N:N" behind it, "del PREFIX GATEWAY", "load FILE", "start". A file has a prefix and a number a line, as tables of routes for tests do.
func speak(file string, lines io.Reader) error {
	set, err := bgpconfig.ReadConfigFile(file, "toml")
	if err != nil {
		return err
	}
	// It has the memory, and beside a feed that is measured it takes less of the processors.
	debug.SetGCPercent(400)
	neighbors := set.Neighbors
	set.Neighbors = nil
	gobgp := server.NewBgpServer()
	go gobgp.Serve()
	if _, err := bgpconfig.InitialConfig(context.Background(), gobgp, set, false); err != nil {
		return err
	}
	scanner := bufio.NewScanner(lines)
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if fields[0] == "start" {
			started := *set
			started.Neighbors = neighbors
			if _, err := bgpconfig.UpdateConfig(context.Background(), gobgp, set, &started); err != nil {
				return err
			}
			continue
		}
		if fields[0] == "load" {
			err = load(gobgp, fields[1])
		} else {
			err = announce(gobgp, fields[0] == "del", netip.MustParsePrefix(fields[1]), netip.MustParseAddr(fields[2]), more(fields[3:])...)
		}
		if err != nil {
			return err
		}
	}
	select {}
}

// load announces what a file has, with as many sets of attributes as a real table: a path
// of ASes for each allocation.
func load(gobgp *server.BgpServer, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		prefix := netip.MustParsePrefix(fields[0])
		hop, err := strconv.ParseUint(fields[1], 10, 8)
		if err != nil {
			return err
		}
		origin := Origin(prefix)
		if err := announce(gobgp, false, prefix, Gateway(prefix, byte(hop)), pathOf(64500, 64500+origin%32, origin)); err != nil {
			return err
		}
	}
	return scanner.Err()
}

// Gateway is that of a numbered next hop.
func Gateway(prefix netip.Prefix, number byte) netip.Addr {
	if prefix.Addr().Is4() {
		return netip.AddrFrom4([4]byte{192, 0, 2, number})
	}
	return netip.AddrFrom16([16]byte{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 4: 0xff, 15: number})
}

// Origin is an AS for the allocation that a prefix is of: /32 of IPv6, /18 of IPv4.
func Origin(prefix netip.Prefix) uint32 {
	b := prefix.Addr().As16()
	if prefix.Addr().Is4() {
		return 1<<24 + binary.BigEndian.Uint32(b[12:])>>14
	}
	return 1<<25 + binary.BigEndian.Uint32(b[:])>>2
}

func pathOf(numbers ...uint32) bgp.PathAttributeInterface {
	return bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, numbers)})
}

// more reads attributes of a line.
func more(fields []string) (attributes []bgp.PathAttributeInterface) {
	for pair := range slices.Chunk(fields, 2) {
		var numbers []uint32
		for _, text := range strings.FieldsFunc(pair[1], func(r rune) bool { return r == ',' || r == ':' }) {
			number, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				panic(err)
			}
			numbers = append(numbers, uint32(number))
		}
		switch pair[0] {
		case "path":
			attributes = append(attributes, pathOf(numbers...))
		case "communities":
			attributes = append(attributes, bgp.NewPathAttributeCommunities(numbers))
		case "large":
			attributes = append(attributes, bgp.NewPathAttributeLargeCommunities(
				[]*bgp.LargeCommunity{{ASN: numbers[0], LocalData1: numbers[1], LocalData2: numbers[2]}}))
		}
	}
	return attributes
}

func announce(gobgp *server.BgpServer, withdrawal bool, prefix netip.Prefix, gateway netip.Addr, more ...bgp.PathAttributeInterface) error {
	nlri, err := bgp.NewIPAddrPrefix(prefix)
	if err != nil {
		return err
	}
	attributes := append([]bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(0)}, more...)
	family := bgp.RF_IPv4_UC
	if prefix.Addr().Is6() {
		family = bgp.RF_IPv6_UC
		reach, err := bgp.NewPathAttributeMpReachNLRI(family, []bgp.PathNLRI{{NLRI: nlri}}, gateway)
		if err != nil {
			return err
		}
		attributes = append(attributes, reach)
	} else {
		hop, err := bgp.NewPathAttributeNextHop(gateway)
		if err != nil {
			return err
		}
		attributes = append(attributes, hop)
	}
	paths := []*apiutil.Path{{Family: family, Nlri: nlri, Attrs: attributes, Withdrawal: withdrawal}}
	if withdrawal {
		return gobgp.DeletePath(apiutil.DeletePathRequest{Paths: paths})
	}
	responses, err := gobgp.AddPath(apiutil.AddPathRequest{Paths: paths})
	for _, r := range responses {
		if r.Error != nil {
			return r.Error
		}
	}
	return err
}

// Speaker is a second speaker.
type Speaker struct {
	io.WriteCloser
	command *exec.Cmd
}

// Say gives it lines.
func (s *Speaker) Say(t testing.TB, lines ...string) {
	t.Helper()
	if _, err := io.WriteString(s, strings.Join(lines, "\n")+"\n"); err != nil {
		t.Fatal(err)
	}
}

// Process is that of the speaker.
func (s *Speaker) Process() *os.Process { return s.command.Process }

// Kill ends it as kill -9 does.
func (s *Speaker) Kill() {
	s.command.Process.Kill()
	s.command.Wait()
}

// Neighbor is the section of one neighbour in a file of GoBGP.
func Neighbor(local, remote string, as, port int, passive, graceful bool) string {
	return fmt.Sprintf(`
[[neighbors]]
  [neighbors.config]
    neighbor-address = "%s"
    peer-as = %d
  [neighbors.transport.config]
    local-address = "%s"
    remote-port = %d
    passive-mode = %v
  [neighbors.ebgp-multihop.config]
    enabled = true
    multihop-ttl = 2
  [neighbors.timers.config]
    connect-retry = 1
    idle-hold-time-after-reset = 1
  [neighbors.graceful-restart.config]
    enabled = %[6]v
    restart-time = 30
  [[neighbors.afi-safis]]
    [neighbors.afi-safis.config]
      afi-safi-name = "ipv4-unicast"
    [neighbors.afi-safis.mp-graceful-restart.config]
      enabled = %[6]v
  [[neighbors.afi-safis]]
    [neighbors.afi-safis.config]
      afi-safi-name = "ipv6-unicast"
    [neighbors.afi-safis.mp-graceful-restart.config]
      enabled = %[6]v
`, remote, as, local, port, passive, graceful)
}

// Global is the first section of a file of GoBGP.
func Global(as int, id string, port int) string {
	return fmt.Sprintf("[global.config]\n as = %d\n router-id = \"%s\"\n port = %d\n local-address-list = [\"%s\"]\n", as, id, port, id)
}

// Write makes a file of its own folder.
func Write(t testing.TB, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// FreePort is one where a listener was just before. It is below those that the kernel gives
// to connections, so that none of another test takes it meanwhile.
func FreePort(t testing.TB, address string) int {
	t.Helper()
	var err error
	for range 100 {
		port := 10_000 + rand.IntN(20_000)
		var listener net.Listener
		if listener, err = net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port))); err == nil {
			listener.Close()
			return port
		}
	}
	t.Fatal(err)
	return 0
}

// Start runs a speaker at an address, of AS 65000 and its last byte, that announces `lines`
// to 127.0.0.1.
func Start(t testing.TB, address string, port int, graceful bool, lines ...string) *Speaker {
	t.Helper()
	return start(t, address, "127.0.0.1", 65001, port, graceful, lines)
}

// StartTo is Start for a speaker at another address, of AS 65001 if that is of 127.0.1.0/24
// and of 65000 and its last byte otherwise.
func StartTo(t testing.TB, address, to string, port int, lines ...string) *Speaker {
	t.Helper()
	as := 65001
	if !strings.HasPrefix(to, "127.0.1.") {
		as = number(to)
	}
	return start(t, address, to, as, port, true, lines)
}

func number(address string) int { return 65000 + int(netip.MustParseAddr(address).As4()[3]) }

func start(t testing.TB, address, to string, as, port int, graceful bool, lines []string) *Speaker {
	t.Helper()
	return Run(t, Global(number(address), address, -1)+Neighbor(address, to, as, port, false, graceful), append(lines, "start")...)
}

// SkipUnderRaceDetector skips a test that runs GoBGP.
func SkipUnderRaceDetector(t testing.TB) {
	t.Helper()
	if raceDetector {
		t.Skip("skipped: under the race detector GoBGP 4.8 fails by races of its own")
	}
}

// Run runs a speaker of a file of GoBGP. Neighbors start with the line "start".
func Run(t testing.TB, file string, lines ...string) *Speaker {
	t.Helper()
	SkipUnderRaceDetector(t)
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), speakerFile+"="+Write(t, "speaker.toml", file))
	command.Stderr = os.Stderr
	command.Stdout = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	s := &Speaker{in, command}
	t.Cleanup(s.Kill)
	s.Say(t, lines...)
	return s
}
