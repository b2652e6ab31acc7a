// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/stats"
)

const (
	members = 3
	servers = 3
	// A slow machine is no fault.
	patience = 60 * time.Second
)

// wire forwards connections from a port of 127.0.0.1 to another. It can hold
// bytes back, as a network that drops packets, delay them, or break all
// connections.
type wire struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	cond  *sync.Cond
	held  bool
	delay time.Duration
	open  map[net.Conn]bool
}

func newWire(to string) (*wire, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{listener: listener, to: to, open: map[net.Conn]bool{}}
	w.cond = sync.NewCond(&w.mu)
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go w.forward(from)
		}
	}()
	return w, nil
}

func (w *wire) address() string { return w.listener.Addr().String() }

func (w *wire) set(held bool, delay time.Duration) {
	w.mu.Lock()
	w.held, w.delay = held, delay
	w.mu.Unlock()
	w.cond.Broadcast()
}

func (w *wire) breakAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for connection := range w.open {
		connection.Close()
	}
}

// await returns once bytes may pass.
func (w *wire) await() {
	w.mu.Lock()
	for w.held {
		w.cond.Wait()
	}
	w.mu.Unlock()
}

func (w *wire) forward(from net.Conn) {
	defer from.Close()
	w.await()
	to, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer to.Close()
	w.mu.Lock()
	w.open[from], w.open[to] = true, true
	w.mu.Unlock()
	ended := make(chan bool, 2)
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			w.pump(way[0], way[1])
			ended <- true
		}()
	}
	<-ended
	w.mu.Lock()
	delete(w.open, from)
	delete(w.open, to)
	w.mu.Unlock()
}

func (w *wire) pump(from io.Reader, to io.Writer) {
	type chunk struct {
		due   time.Time
		bytes []byte
	}
	chunks := make(chan chunk, 1024)
	ended := make(chan bool)
	go func() {
		defer close(ended)
		for c := range chunks {
			time.Sleep(time.Until(c.due))
			w.await()
			if _, err := to.Write(c.bytes); err != nil {
				return
			}
		}
	}()
	defer close(chunks)
	for {
		buffer := make([]byte, 32<<10)
		n, err := from.Read(buffer)
		if n > 0 {
			w.mu.Lock()
			due := time.Now().Add(w.delay)
			w.mu.Unlock()
			select {
			case chunks <- chunk{due, buffer[:n]}:
			case <-ended:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// process is a program that runs, is killed and begun anew.
type process struct {
	name   string
	argv   []string
	env    []string
	log    string
	onExit func(what string)

	mu      sync.Mutex
	command *exec.Cmd
	exited  chan bool
	wanted  bool // it should run
}

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(p.argv[0], p.argv[1:]...)
	command.Stdout, command.Stderr = log, log
	command.Env = append(os.Environ(), p.env...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return err
	}
	exited := make(chan bool)
	p.command, p.exited, p.wanted = command, exited, true
	go func() {
		err := command.Wait()
		close(exited)
		p.mu.Lock()
		surprise := p.wanted && p.command == command
		p.mu.Unlock()
		if surprise {
			p.onExit(fmt.Sprintf("%s ended by itself: %v\n%s", p.name, err, tail(p.log)))
		}
	}()
	return nil
}

func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command != nil {
		p.command.Process.Signal(s)
	}
}

// mayExit says that the process may end by itself from now on.
func (p *process) mayExit() {
	p.mu.Lock()
	p.wanted = false
	p.mu.Unlock()
}

func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// end sends the signal and waits for the end.
func (p *process) end(s syscall.Signal) {
	p.mu.Lock()
	command, exited := p.command, p.exited
	p.wanted = false
	p.mu.Unlock()
	if command == nil {
		return
	}
	command.Process.Signal(s)
	select {
	case <-exited:
	case <-time.After(patience):
		command.Process.Kill()
		<-exited
	}
}

func tail(path string) string {
	text, _ := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// sent is told whether a call has left the client.
type sent struct{ yes bool }

type sentKey struct{}

type sentHandler struct{}

func (sentHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (sentHandler) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, out := s.(*stats.OutHeader); out {
		if told, ok := ctx.Value(sentKey{}).(*sent); ok {
			told.yes = true
		}
	}
}
func (sentHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (sentHandler) HandleConn(context.Context, stats.ConnStats)                       {}

func dial(target string) (*grpc.ClientConn, error) {
	return grpc.NewClient(target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStatsHandler(sentHandler{}),
		grpc.WithDisableRetry(), // only the writers repeat
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1, MaxDelay: 20 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))
}

// cluster is members of etcd and servers that share a store there, with a wire
// between each server and each member. Processes end with it.
type cluster struct {
	folder  string
	etcd    [members]*process
	client  [members]string // addresses
	peer    [members]string
	servers []*process
	sockets []string
	wires   [][]*wire // of each server, to each member
	clock   *clock    // of server 0
	onExit  func(what string)
}

// freeAddresses sets each to another address. All are taken until the last one
// is: a port that is free again may come twice.
func freeAddresses(all []*string) error {
	for _, address := range all {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer listener.Close()
		*address = listener.Addr().String()
	}
	return nil
}

// newCluster starts the members. REQUIRES: `onExit` may be called at any time.
func newCluster(folder, clockLibrary string, onExit func(string)) (*cluster, error) {
	c := &cluster{folder: folder, onExit: onExit}
	if clockLibrary != "" {
		var err error
		if c.clock, err = newClock(filepath.Join(folder, "clock"), clockLibrary); err != nil {
			return nil, err
		}
	}
	var addresses []*string
	for i := range members {
		addresses = append(addresses, &c.client[i], &c.peer[i])
	}
	if err := freeAddresses(addresses); err != nil {
		return nil, err
	}
	for i := range members {
		c.etcd[i] = c.member(i, "one")
		if err := c.etcd[i].start(); err != nil {
			return nil, err
		}
	}
	return c, c.awaitEtcd()
}

func (c *cluster) initial() string {
	var all []string
	for i, peer := range c.peer {
		all = append(all, fmt.Sprintf("m%d=http://%s", i, peer))
	}
	return strings.Join(all, ",")
}

// member is the process of a member of the cluster of that name.
func (c *cluster) member(i int, name string) *process {
	return &process{
		name: fmt.Sprintf("member %d", i),
		argv: []string{"etcd", fmt.Sprintf("--name=m%d", i),
			"--data-dir=" + c.data(i, name), "--initial-cluster-token=" + name,
			"--listen-client-urls=http://" + c.client[i], "--advertise-client-urls=http://" + c.client[i],
			"--listen-peer-urls=http://" + c.peer[i], "--initial-advertise-peer-urls=http://" + c.peer[i],
			"--initial-cluster=" + c.initial(),
			// A disk that all share syncs slowly.
			"--heartbeat-interval=100", "--election-timeout=1000"},
		env:    []string{"GOMAXPROCS=2"},
		log:    filepath.Join(c.folder, fmt.Sprintf("member%d.log", i)),
		onExit: c.onExit,
	}
}

func (c *cluster) data(i int, name string) string {
	return filepath.Join(c.folder, fmt.Sprintf("%s%d", name, i))
}

// ctl runs etcdctl.
func (c *cluster) ctl(endpoint string, arguments ...string) (string, error) {
	command := exec.Command("etcdctl", append([]string{"--endpoints=" + endpoint, "--dial-timeout=2s", "--command-timeout=5s"}, arguments...)...)
	command.Env = append(os.Environ(), "ETCDCTL_API=3")
	text, err := command.CombinedOutput()
	return string(text), err
}

func (c *cluster) awaitEtcd() error {
	deadline := time.Now().Add(patience)
	for i := 0; ; i = (i + 1) % members {
		text, err := c.ctl(c.client[i], "put", "probe", "x")
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("etcd does not answer: %s", text)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// addServer starts a server with that prefix of the store. Await it.
func (c *cluster) addServer(binary, prefix string, flags ...string) (int, error) {
	index := len(c.servers)
	var wires []*wire
	var addresses []string
	for _, member := range c.client {
		w, err := newWire(member)
		if err != nil {
			return 0, err
		}
		wires = append(wires, w)
		addresses = append(addresses, w.address())
	}
	socket := filepath.Join(c.folder, fmt.Sprintf("server%d.sock", index))
	p := &process{
		name: fmt.Sprintf("server %d", index),
		argv: append([]string{binary, "--listen=unix://" + socket, "--metrics_address=",
			fmt.Sprintf("--replica_name=server%d", index),
			fmt.Sprintf("--store=etcd://%s/%s", strings.Join(addresses, ","), prefix)}, flags...),
		log:    filepath.Join(c.folder, fmt.Sprintf("server%d.log", index)),
		onExit: c.onExit,
	}
	if index == 0 && c.clock != nil {
		p.env = c.clock.environment()
	}
	c.servers = append(c.servers, p)
	c.sockets = append(c.sockets, "unix://"+socket)
	c.wires = append(c.wires, wires)
	return index, p.start()
}

// awaitServing waits until the server is SERVING.
func (c *cluster) awaitServing(server int) error {
	connection, err := dial(c.sockets[server])
	if err != nil {
		return err
	}
	defer connection.Close()
	health := grpc_health_v1.NewHealthClient(connection)
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		reply, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		cancel()
		if err == nil && reply.Status == grpc_health_v1.HealthCheckResponse_SERVING {
			return nil
		}
		if time.Now().After(deadline) || !c.servers[server].running() {
			return fmt.Errorf("server %d does not serve: %v %v\n%s", server, reply.GetStatus(), err, tail(c.servers[server].log))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *cluster) end() {
	for _, wires := range c.wires {
		for _, w := range wires {
			w.set(false, 0)
		}
	}
	var all sync.WaitGroup
	for _, p := range append(c.servers, c.etcd[:]...) {
		if p != nil {
			all.Go(func() { p.end(syscall.SIGKILL) })
		}
	}
	all.Wait()
	if c.clock != nil {
		c.clock.end()
	}
}

// clock is the wall clock of a process, which jumps an hour ahead and back. See
// base/testing/jumping_clock.cc.
type clock struct {
	library, path string
	offset        []byte
	stop          chan bool
	once          sync.Once
}

func newClock(path, library string) (*clock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := file.Truncate(8); err != nil {
		return nil, err
	}
	offset, err := syscall.Mmap(int(file.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	c := &clock{library: library, path: path, offset: offset, stop: make(chan bool)}
	go func() {
		for i := int64(0); ; i++ {
			binary.NativeEndian.PutUint64(c.offset, uint64((i%3-1)*time.Hour.Nanoseconds()))
			select {
			case <-c.stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return c, nil
}

func (c *clock) environment() []string {
	return []string{"PLANB_TEST_CLOCK=" + c.path, "LD_PRELOAD=" + c.library}
}

func (c *clock) end() { c.once.Do(func() { close(c.stop) }) }
