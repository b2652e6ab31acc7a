// SPDX-License-Identifier: Apache-2.0

package bgp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
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

func TestMain(m *testing.M) {
	if file := os.Getenv(speakerFile); file != "" {
		if err := speak(file, os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// speak takes lines: "add PREFIX GATEWAY", "del PREFIX GATEWAY", "start".
func speak(file string, lines io.Reader) error {
	set, err := bgpconfig.ReadConfigFile(file, "toml")
	if err != nil {
		return err
	}
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
			for i := range started.Neighbors {
				hurry(&started.Neighbors[i].Timers.Config)
			}
			if _, err := bgpconfig.UpdateConfig(context.Background(), gobgp, set, &started); err != nil {
				return err
			}
			continue
		}
		if err := announce(gobgp, fields[0] == "del", netip.MustParsePrefix(fields[1]), netip.MustParseAddr(fields[2])); err != nil {
			return err
		}
	}
	select {}
}

func announce(gobgp *server.BgpServer, withdrawal bool, prefix netip.Prefix, gateway netip.Addr) error {
	nlri, err := bgp.NewIPAddrPrefix(prefix)
	if err != nil {
		return err
	}
	attributes := []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(0)}
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

// remote is a second speaker.
type remote struct {
	io.WriteCloser
	command *exec.Cmd
}

func (r *remote) say(t testing.TB, lines ...string) {
	t.Helper()
	if _, err := io.WriteString(r, strings.Join(lines, "\n")+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (r *remote) kill() {
	r.command.Process.Kill()
	r.command.Wait()
}

// neighbor is the section of one neighbour in a file of GoBGP.
func neighbor(local, remote string, as, port int, passive, graceful bool) string {
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

func global(as int, id string, port int) string {
	return fmt.Sprintf("[global.config]\n as = %d\n router-id = \"%s\"\n port = %d\n local-address-list = [\"%s\"]\n", as, id, port, id)
}

func write(t testing.TB, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func freePort(t testing.TB, address string) int {
	t.Helper()
	listener, err := net.Listen("tcp", address+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// start runs a speaker at an address, of AS 65000 and its last byte, that announces `lines`
// to 127.0.0.1.
func start(t testing.TB, address string, port int, graceful bool, lines ...string) *remote {
	t.Helper()
	as := 65000 + int(netip.MustParseAddr(address).As4()[3])
	file := write(t, "speaker.toml", global(as, address, -1)+neighbor(address, "127.0.0.1", 65001, port, false, graceful))
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), speakerFile+"="+file)
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	r := &remote{in, command}
	t.Cleanup(r.kill)
	r.say(t, append(lines, "start")...)
	return r
}
