// SPDX-License-Identifier: Apache-2.0

package sourcetest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// In tells the test process that it is in a namespace that a test made.
const inNamespace = "PLANB_FEED_TEST_NAMESPACE"

// InNamespace runs the test in a network namespace of its own, with a loopback and two
// ends v0 and v1 of a wire. The test goes on where it returns true, and returns where
// it returns false.
func InNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inNamespace) != "" {
		Ip(t, "link set lo up", "link add v0 type veth peer name v1", "link set v0 up", "link set v1 up")
		return true
	}
	t.Parallel() // waits for daemons most of the time
	if os.Geteuid() != 0 {
		t.Skip("skipped: a network namespace needs root")
	}
	unshare := []string{"unshare", "--net", "--mount"}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "ip", "link")...).CombinedOutput(); err != nil {
		t.Skipf("skipped: there is no network namespace or no iproute2: %v %s", err, out)
	}
	limit := 8 * time.Minute
	if end, is := t.Deadline(); is { // what it says then is heard
		limit = min(limit, time.Until(end)-20*time.Second)
	}
	command := exec.Command(unshare[0], append(unshare[1:], os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v",
		fmt.Sprintf("-test.short=%v", testing.Short()), fmt.Sprintf("-test.timeout=%s", limit))...)
	command.WaitDelay = 10 * time.Second // for what its children still hold open
	command.Env = append(os.Environ(), inNamespace+"=yes")
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("in the namespace: %v\n%s", err, out)
	}
	if bytes.Contains(out, []byte("--- SKIP")) {
		t.Skipf("%s", out)
	}
	t.Logf("%s", out)
	return false
}

// Ip runs commands of iproute2.
func Ip(t testing.TB, commands ...string) {
	t.Helper()
	for _, command := range commands {
		Command(t, append([]string{"ip"}, strings.Fields(command)...)...)
	}
}

// Command runs a program, and returns what it printed.
func Command(t testing.TB, arguments ...string) string {
	t.Helper()
	out, err := exec.Command(arguments[0], arguments[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

// FRR is a router in a folder of its own.
type FRR struct {
	t      testing.TB
	folder string
}

const frrFolder = "/usr/lib/frr"

// NewFRR skips the test where FRR is not installed.
func NewFRR(t *testing.T) *FRR {
	t.Helper()
	account, err := user.Lookup("frr")
	if _, missing := os.Stat(filepath.Join(frrFolder, "zebra")); err != nil || missing != nil {
		t.Skip("skipped: Debian's package frr is not installed")
	}
	folder := t.TempDir()
	uid, _ := strconv.Atoi(account.Uid)
	gid, _ := strconv.Atoi(account.Gid)
	if err := errors.Join(os.Chmod(filepath.Dir(folder), 0o755), os.Chown(folder, uid, gid)); err != nil {
		t.Fatal(err)
	}
	return &FRR{t, folder}
}

// Start runs a daemon, and returns what kills it as kill -9 does.
func (f *FRR) Start(daemon, config string, more ...string) (kill func()) {
	f.t.Helper()
	file := filepath.Join(f.folder, daemon+".conf")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		f.t.Fatal(err)
	}
	socket := filepath.Join(f.folder, "zserv")
	if daemon != "zebra" { // would try again ten seconds later
		Eventually(f.t, "zebra listens", func() bool {
			_, err := os.Stat(socket)
			return err == nil
		})
	}
	// That of a daemon that was killed is still there.
	commands := filepath.Join(f.folder, daemon+".vty")
	os.Remove(commands)
	kill = Start(f.t, append([]string{filepath.Join(frrFolder, daemon), "-f", file, "-P", "0",
		"-z", socket, "-i", filepath.Join(f.folder, daemon+".pid"),
		"--vty_socket", f.folder}, more...)...)
	Eventually(f.t, daemon+" takes commands", func() bool {
		_, err := os.Stat(commands)
		return err == nil
	})
	return kill
}

// Vtysh runs commands of a daemon.
func (f *FRR) Vtysh(daemon string, commands ...string) string {
	f.t.Helper()
	arguments := []string{"vtysh", "--vty_socket", f.folder, "-d", daemon}
	for _, command := range commands {
		arguments = append(arguments, "-c", command)
	}
	return Command(f.t, arguments...)
}

// Start runs a program until `kill` is called or the test ends.
func Start(t testing.TB, arguments ...string) (kill func()) {
	t.Helper()
	command := exec.Command(arguments[0], arguments[1:]...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if killed {
			return
		}
		killed = true
		command.Process.Kill()
		command.Wait()
		if t.Failed() {
			t.Logf("%s printed %s", arguments[0], out.String())
		}
	}
	t.Cleanup(kill)
	return kill
}
