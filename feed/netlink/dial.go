// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// NamespaceFile is the file of a network namespace: a name is one of `ip netns`, a path is
// that of a file.
func NamespaceFile(namespace string) string {
	if strings.Contains(namespace, "/") {
		return namespace
	}
	return filepath.Join("/run/netns", namespace)
}

// Dial opens a socket in a network namespace: "" is the one of this process, others are
// as NamespaceFile takes them.
func Dial(namespace string, strict bool) (*nl.Conn, error) {
	// The kernel fills as much of a dump into one message as the reader has room for.
	config := &nl.Config{Strict: strict, MessageBufferSize: 1 << 16}
	if namespace != "" {
		file, err := os.Open(NamespaceFile(namespace))
		if err != nil {
			return nil, err
		}
		defer file.Close()
		config.NetNS = int(file.Fd())
	}
	connection, err := nl.Dial(unix.NETLINK_ROUTE, config)
	if err != nil {
		return nil, fmt.Errorf("netlink in namespace %q: %w", namespace, err)
	}
	return connection, nil
}

// Dump asks for all objects of a kind, and calls `each` for what comes: its data counts
// until `each` returns.
func Dump(connection *nl.Conn, kind uint16, data []byte, each func(nl.Message)) error {
	sent, err := connection.Send(nl.Message{
		Header: nl.Header{Type: nl.HeaderType(kind), Flags: nl.Request | nl.Dump}, Data: data,
	})
	if err != nil {
		return err
	}
	for m, err := range connection.ReceiveIter() {
		if err != nil {
			return fmt.Errorf("what netlink answers to %d: %w", kind, err)
		}
		if m.Header.Sequence != sent.Header.Sequence {
			return errors.New("netlink answers another question")
		}
		each(m)
	}
	return nil
}
