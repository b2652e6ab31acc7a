// SPDX-License-Identifier: Apache-2.0

//go:build planb_local

package local_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crypto "crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	planb "planb.dev/lookup/client/go"
	"planb.dev/lookup/client/go/local"
	"planb.dev/lookup/client/go/planbv1"
)

const patience = 30 * time.Second

// check ends the test if there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start runs a server at target until the end of the test.
func start(t *testing.T, target string, flags ...string) *exec.Cmd {
	binary := os.Getenv("PLANB_SERVER_BINARY")
	if binary == "" {
		t.Skip("PLANB_SERVER_BINARY does not name a planb_server")
	}
	server := exec.Command(binary, append(flags, "--listen="+target, "--metrics_address=", "--store=none")...)
	server.Stderr = os.Stderr
	check(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	return server
}

// Writers go through the server; readers call the table in this process.
func TestFollowsAServer(t *testing.T) {
	target := "unix://" + filepath.Join(t.TempDir(), "socket")
	server := start(t, target)
	client, err := planb.Dial(target, planb.WithPatience(patience))
	check(t, err)
	defer client.Close()
	table, err := local.Open(target, "default", patience, time.Second*7)
	check(t, err)
	defer table.Close()

	six := netip.MustParseAddr("2001:db8::1").As16()
	four := netip.MustParseAddr("192.0.2.1").As4()
	packed := append(append([]byte{}, six[:]...), make([]byte, 16)...)
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			hops := make([]uint32, 2)
			var last uint64
			for {
				select {
				case <-done:
					return
				default:
				}
				generation, err := table.LookupV6(packed, hops)
				if err != nil || generation < last || hops[1] != 0 ||
					(generation > 0 && uint64(hops[0]) != generation) {
					t.Errorf("generation %d after %d: %v, %v", generation, last, hops, err)
					return
				}
				last = generation
			}
		}()
	}
	for i := uint32(1); i <= 100; i++ {
		generation, err := client.Announce(context.Background(), map[netip.Prefix]uint32{
			netip.MustParsePrefix("2001:db8::/32"): i,
			netip.MustParsePrefix("192.0.2.0/24"):  i,
		})
		check(t, err)
		check(t, table.Wait(generation, patience))
		hops := make([]uint32, 1)
		if of, err := table.LookupV4(four[:], hops); err != nil || of < generation || hops[0] != i {
			t.Fatalf("%d in generation %d, %v; not %d in %d", hops[0], of, err, i, generation)
		}
	}
	close(done)
	readers.Wait()
	if table.Staleness() > patience || table.Generation() == 0 {
		t.Errorf("staleness %v, generation %d", table.Staleness(), table.Generation())
	}

	if _, err := table.LookupV6(six[:15], make([]uint32, 1)); status.Code(err) != codes.InvalidArgument {
		t.Errorf("15 bytes are an address: %v", err)
	}
	if _, err := table.LookupV6(packed, make([]uint32, 1)); status.Code(err) != codes.InvalidArgument {
		t.Errorf("two next hops fit into one: %v", err)
	}
	if err := table.Wait(table.Generation()+1, 10*time.Millisecond); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a generation that does not exist was awaited: %v", err)
	}
	// Without the server, until the table is too old.
	_ = server.Process.Kill()
	hops := make([]uint32, 2)
	if _, err := table.LookupV6(packed, hops); err != nil || hops[0] != 100 {
		t.Errorf("%v, %v without the server", hops, err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if _, err := table.LookupV6(packed, hops); status.Code(err) == codes.Unavailable {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a table that is too old answers lookups")
		}
	}
}

// connect starts a server and gives its table a route: one that is empty is
// followed only after 5 s.
func connect(t *testing.T, table string) (string, *planb.Client) {
	target := "unix://" + filepath.Join(t.TempDir(), "socket")
	start(t, target)
	client, err := planb.Dial(target, planb.WithPatience(patience), planb.WithTable(table))
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	// A stream waits for the server.
	if _, err := client.Lookup(t.Context(), []netip.Addr{netip.IPv6Unspecified()}); err != nil && planb.ReasonOf(err) != "TABLE_NOT_FOUND" {
		t.Fatal(err)
	}
	if table != "default" {
		if _, err := client.Tables().CreateTable(t.Context(), &planbv1.CreateTableRequest{Table: table}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Announce(t.Context(), map[netip.Prefix]uint32{netip.MustParsePrefix("2001:db8::/32"): 1}); err != nil {
		t.Fatal(err)
	}
	return target, client
}

func TestAClosedTableRefusesCalls(t *testing.T) {
	target, _ := connect(t, "default")
	table, err := local.Open(target, "default", patience, 0)
	check(t, err)
	var calls sync.WaitGroup
	began := make(chan struct{}, 3)
	for _, call := range []func() error{
		func() error { return table.Wait(1<<40, time.Hour) },
		func() error { _, err := table.LookupV6(make([]byte, 16), make([]uint32, 1)); return err },
		func() error { _, err := table.LookupV4(nil, nil); return err },
	} {
		calls.Add(1)
		go func() {
			defer calls.Done()
			began <- struct{}{}
			for {
				if err := call(); status.Code(err) == codes.FailedPrecondition {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	for range cap(began) {
		<-began
	}
	time.Sleep(10 * time.Millisecond) // They are in the calls, most likely.
	for range 2 {
		table.Close()
		if table.Generation() != 0 || table.Staleness() < patience {
			t.Errorf("generation %d, staleness %v", table.Generation(), table.Staleness())
		}
	}
	calls.Wait()
}

func TestALookupSaysWhyItFails(t *testing.T) {
	target, client := connect(t, "red")
	// The server speaks every 5 s.
	impatient, err := local.Open(target, "red", patience, time.Microsecond)
	check(t, err)
	defer impatient.Close()
	if err := untilItFails(t, impatient); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "stale") {
		t.Error(err)
	}

	table, err := local.Open(target, "red", patience, 0)
	check(t, err)
	defer table.Close()
	if _, err := client.Tables().DeleteTable(t.Context(), &planbv1.DeleteTableRequest{Table: "red"}); err != nil {
		t.Fatal(err)
	}
	if err := untilItFails(t, table); status.Code(err) != codes.NotFound || strings.Contains(err.Error(), "stale") {
		t.Error(err)
	}
}

func untilItFails(t *testing.T, table *local.Table) error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := table.LookupV4(make([]byte, 4), make([]uint32, 1)); err != nil {
			return err
		}
	}
	t.Fatal("no lookup fails")
	return nil
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	_, err := local.Open("unix:///nowhere", "default", 100*time.Millisecond, 0)
	if status.Code(err) != codes.DeadlineExceeded || len(err.Error()) < 10 {
		t.Errorf("%v", err)
	}
	_, err = local.Open("localhost:1", "default", patience, 0, local.WithTLS(local.TLS{CA: "/nowhere"}))
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("%v", err)
	}
}

func TestOpenRefusesWhatItWouldHaveToReadAnotherWay(t *testing.T) {
	target, _ := connect(t, "default")
	followed, err := local.Open(target, "default", patience, 0)
	check(t, err)
	followed.Close()
	open := func(server, table string, staleness time.Duration, options ...local.Option) error {
		opened, err := local.Open(server, table, patience, staleness, options...)
		if err == nil {
			opened.Close()
		}
		return err
	}
	for what, err := range map[string]error{
		"maxStaleness": open(target, "default", -1),
		"server":       open(target+"\x00x", "default", 0),
		"table":        open(target, "default\x00x", 0),
		"TLS.CA":       open("localhost:1", "default", 0, local.WithTLS(local.TLS{CA: "\x00/nowhere"})),
		"TLS.Name":     open("localhost:1", "default", 0, local.WithTLS(local.TLS{Name: "\x00other"})),
	} {
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// identity writes a certificate for name and its key into folder, signed by the
// parent, or by itself without one.
func identity(t *testing.T, folder, name string, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), crypto.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if parent == nil {
		template.IsCA, template.BasicConstraintsValid = true, true
		template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageCertSign, nil
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(crypto.Reader, template, parent, &key.PublicKey, parentKey)
	check(t, err)
	made, err := x509.ParseCertificate(der)
	check(t, err)
	keyDer, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	for suffix, block := range map[string]*pem.Block{
		".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: keyDer},
	} {
		check(t, os.WriteFile(filepath.Join(folder, name+suffix), pem.EncodeToMemory(block), 0o600))
	}
	return made, key
}

// Where a listener was just before. Its port is below those that the kernel gives to
// connections, so that none of another test takes it meanwhile.
func freeAddress(t *testing.T) string {
	t.Helper()
	var err error
	for range 100 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(10_000+rand.IntN(20_000)))
		var listener net.Listener
		if listener, err = net.Listen("tcp", address); err == nil {
			_ = listener.Close()
			return address
		}
	}
	t.Fatal(err)
	return ""
}

func TestFollowsByMutualTLS(t *testing.T) {
	folder := t.TempDir()
	authority, key := identity(t, folder, "authority", nil, nil)
	identity(t, folder, "server", authority, key)
	identity(t, folder, "client", authority, key)
	identity(t, folder, "stranger", nil, nil)
	file := func(name string) string { return filepath.Join(folder, name) }
	target := freeAddress(t)
	start(t, target, "--tls_cert="+file("server.crt"), "--tls_key="+file("server.key"),
		"--tls_client_ca="+file("authority.crt"))

	right := local.TLS{CA: file("authority.crt"), Cert: file("client.crt"), Key: file("client.key")}
	table, err := local.Open(target, "default", patience, 0, local.WithTLS(right))
	check(t, err)
	defer table.Close()
	hops := []uint32{5}
	if _, err := table.LookupV6(make([]byte, 16), hops); err != nil || hops[0] != 0 {
		t.Errorf("%v, %v of an empty table", hops, err)
	}
	other := right
	other.CA = file("stranger.crt")
	named := right
	named.Name = "another.example"
	for _, tls := range []local.TLS{other, named, {CA: right.CA}} {
		if wrong, err := local.Open(target, "default", time.Second, 0, local.WithTLS(tls)); err == nil {
			wrong.Close()
			t.Errorf("%v is good enough", tls)
		}
	}
}

func BenchmarkLookupV6(b *testing.B) {
	target := os.Getenv("PLANB_TARGET")
	if target == "" {
		b.Skip("PLANB_TARGET does not name a running server")
	}
	table, err := local.Open(target, "default", patience, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer table.Close()
	// Of 2000::/3, where the Internet's routes are.
	const batch, batches = 256, 4096
	packed, hops := make([]byte, batches*batch*16), make([]uint32, batch)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(packed)
	for i := 0; i < len(packed); i += 16 {
		packed[i] = packed[i]&0x1f | 0x20
	}
	at := 0
	for b.Loop() {
		if _, err := table.LookupV6(packed[at:at+batch*16], hops); err != nil {
			b.Fatal(err)
		}
		at = (at + batch*16) % len(packed)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/address")
}
