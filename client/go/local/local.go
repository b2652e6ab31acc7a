// SPDX-License-Identifier: Apache-2.0

//go:build planb_local

// Package local is a table inside this process that follows a server: lookups
// are function calls, at the engine's own rate, and go on without the server.
//
// It calls libplanb_local.so (client/local_table_c.h) through cgo. Build with
// the tag planb_local, and with the folders of the header and the library:
//
//	CGO_CFLAGS=-IREPOSITORY CGO_LDFLAGS=-LFOLDER go build -tags planb_local
package local

/*
#cgo LDFLAGS: -lplanb_local
#include <stdlib.h>
#include "client/local_table_c.h"
*/
import "C"

import (
	"math"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Table is a replica of a server's table. Its methods may be called by many
// goroutines at once.
type Table struct {
	mu sync.RWMutex   // held by calls, so that Close waits for them
	c  *C.planb_local // nil: closed
}

// A call of Wait lets Close in so often.
const waitSlice = 50 * time.Millisecond

var errClosed = status.Error(codes.FailedPrecondition, "planb: the table is closed")

// TLS has the names of files in PEM, which Open reads once: open another table
// before a certificate expires. All may be empty.
type TLS struct {
	CA        string // authorities for the server's certificate; empty: this host's
	Cert, Key string // the client's certificate chain and its key: both or none
	Name      string // required in the server's certificate; empty: the server's
}

type settings struct {
	tls *TLS
}

// Option changes how Open connects.
type Option func(*settings)

// WithTLS connects by TLS. The default is plain text.
func WithTLS(tls TLS) Option { return func(s *settings) { s.tls = &tls } }

// Open follows a table of the server at an address such as
// "unix:///run/planb/planb.sock", which must allow the caller to watch it. It
// waits until the whole table is there, for timeout at most. With maxStaleness
// > 0, lookups fail with codes.Unavailable once the server was not heard for so
// long; it speaks every 5 s at least. Errors have the server's code, such as
// codes.PermissionDenied. A negative maxStaleness is refused, because it may be a
// bound that was computed wrong, and so is a text with a zero byte, at which C ends
// it.
func Open(server, table string, timeout, maxStaleness time.Duration, options ...Option) (*Table, error) {
	if maxStaleness < 0 {
		return nil, status.Errorf(codes.InvalidArgument, "planb: maxStaleness: %s is less than no time", maxStaleness)
	}
	if maxStaleness > 0 {
		maxStaleness = max(maxStaleness, time.Millisecond) // 0 ms is no bound.
	}
	var set settings
	for _, option := range options {
		option(&set)
	}
	tls := TLS{}
	if set.tls != nil {
		tls = *set.tls
	}
	for name, value := range map[string]string{
		"server": server, "table": table, "TLS.CA": tls.CA, "TLS.Cert": tls.Cert, "TLS.Key": tls.Key, "TLS.Name": tls.Name,
	} {
		if strings.ContainsRune(value, 0) {
			return nil, status.Errorf(codes.InvalidArgument, "planb: %s: %q has a zero byte", name, value)
		}
	}
	var texts []unsafe.Pointer
	defer func() {
		for _, each := range texts {
			C.free(each)
		}
	}()
	text := func(value string) *C.char {
		c := C.CString(value)
		texts = append(texts, unsafe.Pointer(c))
		return c
	}
	how := C.planb_local_options{
		size: C.sizeof_planb_local_options, server: text(server), table: text(table),
		timeout_ms:       C.int64_t(timeout.Milliseconds()),
		max_staleness_ms: C.int64_t(maxStaleness.Milliseconds()),
	}
	if set.tls != nil {
		how.tls_ca, how.tls_cert, how.tls_key, how.tls_server_name =
			text(tls.CA), text(tls.Cert), text(tls.Key), text(tls.Name)
	}
	message := make([]byte, 256)
	var c *C.planb_local
	code := C.planb_local_follow(&how, &c,
		(*C.char)(unsafe.Pointer(&message[0])), C.size_t(len(message)))
	if code != 0 {
		return nil, status.Errorf(codes.Code(code), "planb: %s",
			C.GoString((*C.char)(unsafe.Pointer(&message[0]))))
	}
	return &Table{c: c}, nil
}

// LookupV6 looks up packed addresses of 16 bytes each, and puts the next hops,
// 0 for none, into nextHops. All are of the generation that it returns. Errors
// are statuses: codes.Unavailable if the table is stale, codes.FailedPrecondition
// if it is closed, or what ended the watch, such as codes.NotFound for a table
// that was deleted.
func (t *Table) LookupV6(addresses []byte, nextHops []uint32) (uint64, error) {
	return t.lookup(addresses, 16, nextHops)
}

// LookupV4 is LookupV6 for addresses of 4 bytes.
func (t *Table) LookupV4(addresses []byte, nextHops []uint32) (uint64, error) {
	return t.lookup(addresses, 4, nextHops)
}

func (t *Table) lookup(addresses []byte, size int, nextHops []uint32) (uint64, error) {
	count := len(addresses) / size
	if len(addresses)%size != 0 || len(nextHops) < count {
		return 0, status.Errorf(codes.InvalidArgument,
			"%d bytes are no addresses of %d, or do not fit into %d next hops",
			len(addresses), size, len(nextHops))
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.c == nil {
		return 0, errClosed
	}
	if count == 0 {
		return uint64(C.planb_local_generation(t.c)), nil
	}
	var generation C.uint64_t
	in, n := unsafe.Pointer(&addresses[0]), C.size_t(count)
	out := (*C.uint32_t)(unsafe.Pointer(&nextHops[0]))
	var code C.int
	if size == 16 {
		code = C.planb_local_lookup_v6(t.c, in, n, out, &generation)
	} else {
		code = C.planb_local_lookup_v4(t.c, in, n, out, &generation)
	}
	runtime.KeepAlive(addresses)
	switch codes.Code(code) {
	case codes.OK:
		return uint64(generation), nil
	case codes.Unavailable:
		return 0, status.Error(codes.Unavailable, "planb: the table is stale")
	default:
		return 0, status.Error(codes.Code(code), "planb: the server ended the watch of the table")
	}
}

// Generation is the generation that answers lookups; 0 if the table is closed.
func (t *Table) Generation() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.c == nil {
		return 0
	}
	return uint64(C.planb_local_generation(t.c))
}

// Wait returns once lookups are answered from that generation or a later one. Its
// errors are those of LookupV6, and codes.DeadlineExceeded after timeout.
func (t *Table) Wait(generation uint64, timeout time.Duration) error {
	for end := time.Now().Add(timeout); ; {
		left := max(time.Until(end), 0)
		err := t.waitFor(generation, min(left, waitSlice))
		if status.Code(err) != codes.DeadlineExceeded || left <= waitSlice {
			return err
		}
	}
}

func (t *Table) waitFor(generation uint64, timeout time.Duration) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.c == nil {
		return errClosed
	}
	code := C.planb_local_wait(t.c, C.uint64_t(generation), C.int64_t(timeout.Milliseconds()))
	if code != 0 {
		return status.Errorf(codes.Code(code), "planb: generation %d is not here", generation)
	}
	return nil
}

// Staleness is the time since the last word from the server; the longest there
// is if the table is closed.
func (t *Table) Staleness() time.Duration {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.c == nil {
		return math.MaxInt64
	}
	return time.Duration(C.planb_local_staleness_ms(t.c)) * time.Millisecond
}

// Close frees the table, after the calls that are in progress; Wait ends soon.
// Later calls fail, or do nothing if they are Close.
func (t *Table) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	C.planb_local_close(t.c)
	t.c = nil
}
