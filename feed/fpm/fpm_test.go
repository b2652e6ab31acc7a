// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"planb.dev/lookup/feed/bgp/bgptest"
	"planb.dev/lookup/feed/netlink"
	"planb.dev/lookup/feed/source/sourcetest"
)

// route is a message as FRR 8.4 sends it: an end has a destination and a metric only.
func route(kind uint16, prefix string, table uint8, gateway string, group uint32) []byte {
	p := netip.MustParsePrefix(prefix)
	family := uint8(unix.AF_INET6)
	if p.Addr().Is4() {
		family = unix.AF_INET
	}
	encoder := nl.NewAttributeEncoder()
	encoder.Bytes(unix.RTA_DST, p.Addr().AsSlice())
	encoder.Uint32(unix.RTA_PRIORITY, 20)
	if gateway != "" {
		encoder.Bytes(unix.RTA_GATEWAY, netip.MustParseAddr(gateway).AsSlice())
	}
	if group != 0 {
		encoder.Uint32(30, group) // RTA_NH_ID
	}
	return message(kind, []byte{family, uint8(p.Bits()), 0, 0, table, unix.RTPROT_BGP, 0, unix.RTN_UNICAST, 0, 0, 0, 0}, encoder)
}

func add(prefix, gateway string) []byte {
	return route(unix.RTM_NEWROUTE, prefix, unix.RT_TABLE_MAIN, gateway, 0)
}

func remove(prefix string) []byte {
	return route(unix.RTM_DELROUTE, prefix, unix.RT_TABLE_MAIN, "", 0)
}

func message(kind uint16, fixed []byte, encoder *nl.AttributeEncoder) []byte {
	attributes, err := encoder.Encode()
	if err != nil {
		panic(err)
	}
	data := append(fixed, attributes...)
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(data)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, make([]byte, unix.NLMSG_HDRLEN-len(b))...)
	return append(b, data...)
}

func frame(messages ...[]byte) []byte {
	b := []byte{1, 1, 0, 0}
	for _, m := range messages {
		b = append(b, m...)
	}
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	return b
}

// start runs a source on a port of its own, and returns what connects to it.
func start(t *testing.T, sink *sourcetest.Sink, more string) (dial func() net.Conn) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(bgptest.FreePort(t, "127.0.0.1")))
	sourcetest.Run(t, New, "listen: "+address+"\nquiet: 100ms\n"+more, sink)
	return func() net.Conn {
		t.Helper()
		var connection net.Conn
		sourcetest.Eventually(t, "the source listens", func() bool {
			var err error
			connection, err = net.Dial("tcp", address)
			return err == nil
		})
		t.Cleanup(func() { connection.Close() })
		return connection
	}
}

func send(t *testing.T, connection net.Conn, frames ...[]byte) {
	t.Helper()
	for _, f := range frames {
		if _, err := connection.Write(f); err != nil {
			t.Fatal(err)
		}
	}
}

func prefixes(count int) []string {
	var result []string
	for i := range count {
		result = append(result, fmt.Sprintf("2001:db8:%x::/48", i))
	}
	return result
}

func addAll(t *testing.T, connection net.Conn, prefixes []string) {
	t.Helper()
	// At once: a machine that holds up the test in between would make a pause of it.
	var frames []byte
	for _, p := range prefixes {
		frames = append(frames, frame(add(p, "2001:db8:ffff::1"))...)
	}
	send(t, connection, frames)
}

func await(t *testing.T, sink *sourcetest.Sink, state string) {
	t.Helper()
	sourcetest.Eventually(t, "the session is "+state, func() bool { return sink.State("") == state })
}

// A connection that tells so many routes until they are complete, and ends.
func tellAndClose(t *testing.T, sink *sourcetest.Sink, connection net.Conn, routes int) {
	t.Helper()
	addAll(t, connection, prefixes(routes))
	await(t, sink, "complete")
	connection.Close()
	await(t, sink, "lost")
}

// The other side closes the connection, or resets it, and sends nothing.
func expectEnd(t *testing.T, connection net.Conn, which string) {
	t.Helper()
	connection.SetReadDeadline(time.Now().Add(sourcetest.Patience))
	if n, err := connection.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s is open: %d bytes and %v", which, n, err)
	}
}

func TestQuietAndEnoughIsComplete(t *testing.T) {
	sink := sourcetest.NewSink()
	connection := start(t, sink, "")()
	addAll(t, connection, prefixes(10))
	await(t, sink, "complete")
	if sink.Len() != 10 {
		t.Errorf("%d routes, not 10", sink.Len())
	}
	if got, want := strings.Join(sink.Events(), ", "), "lost, begun, complete"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func TestARedialChangesAndSweepsNothing(t *testing.T) {
	sink := sourcetest.NewSink()
	dial := start(t, sink, "")
	for range 3 {
		tellAndClose(t, sink, dial(), 10)
	}
	if sink.Len() != 10 || sink.Withdrawn() != 0 {
		t.Errorf("%d routes and %d withdrawals", sink.Len(), sink.Withdrawn())
	}
}

func TestARouterThatCameBackWithoutItsRoutesWithdrawsNothing(t *testing.T) {
	sink := sourcetest.NewSink()
	dial := start(t, sink, "")
	tellAndClose(t, sink, dial(), 20)

	// zebra is back before bgpd: two routes, and quiet.
	connection := dial()
	addAll(t, connection, prefixes(2))
	time.Sleep(500 * time.Millisecond)
	if sink.State("") != "begun" || sink.Len() != 20 {
		t.Fatalf("%s with %d routes", sink.State(""), sink.Len())
	}
	// bgpd comes: most routes, and one less than before.
	addAll(t, connection, prefixes(19))
	await(t, sink, "complete")
	if sink.Len() != 19 || sink.Withdrawn() != 1 {
		t.Errorf("%d routes and %d withdrawals", sink.Len(), sink.Withdrawn())
	}
}

func TestAFrameIsOneTransaction(t *testing.T) {
	sink := sourcetest.NewSink()
	connection := start(t, sink, "")()
	send(t, connection, frame(add("2001:db8::/32", "2001:db8::1"), add("192.0.2.0/24", "198.51.100.1")))
	await(t, sink, "complete")
	send(t, connection, frame(remove("2001:db8::/32"), add("2001:db8::/32", "2001:db8::2")), frame(remove("192.0.2.0/24")))
	sourcetest.Eventually(t, "the end is told", func() bool { return sink.Withdrawn() == 1 })
	if sink.Text("2001:db8::/32") != "2001:db8::2" || sink.Len() != 1 {
		t.Errorf("%s of %d", sink.Text("2001:db8::/32"), sink.Len())
	}
}

func TestTheEndOfAVRFsRouteIsNotThatOfTheMainTable(t *testing.T) {
	sink := sourcetest.NewSink()
	connection := start(t, sink, "")()
	send(t, connection, frame(add("2001:db8::/32", "2001:db8::1")))
	send(t, connection, frame(route(unix.RTM_DELROUTE, "2001:db8::/32", unix.RT_TABLE_UNSPEC, "", 0)))
	await(t, sink, "complete")
	if sink.Len() != 1 {
		t.Error("the route of the main table went")
	}
}

func TestARouteOfAnUnknownNextHopKeepsItsAnswer(t *testing.T) {
	sink := sourcetest.NewSink()
	connection := start(t, sink, "")()
	send(t, connection, frame(add("2001:db8::/32", "2001:db8::1")))
	await(t, sink, "complete")
	send(t, connection, frame(route(unix.RTM_NEWROUTE, "2001:db8::/32", unix.RT_TABLE_MAIN, "", 5)), frame(add("2001:db8:1::/48", "2001:db8::1")))
	sourcetest.Eventually(t, "both frames came", func() bool { return sink.Len() == 2 })
	if sink.Text("2001:db8::/32") != "2001:db8::1" {
		t.Errorf("%q", sink.Text("2001:db8::/32"))
	}
	encoder := nl.NewAttributeEncoder()
	encoder.Uint32(unix.NHA_ID, 5)
	encoder.Bytes(unix.NHA_GATEWAY, netip.MustParseAddr("2001:db8::9").AsSlice())
	send(t, connection, frame(message(unix.RTM_NEWNEXTHOP, make([]byte, 8), encoder)))
	sourcetest.Eventually(t, "the route has its next hop",
		func() bool { return sink.Text("2001:db8::/32") == "2001:db8::9" })
}

func TestWhatIsNoFrameEndsTheConnectionOnly(t *testing.T) {
	sink := sourcetest.NewSink()
	dial := start(t, sink, "")
	for _, wrong := range []string{"GET / HTTP/1.1\r\n\r\n", "\x01\x01\x00\x03", "\x02\x01\x00\x10", "\x01\x01\x00\x08\xff\xff\xff\x7f"} {
		connection := dial()
		send(t, connection, frame(add("2001:db8::/32", "2001:db8::1")), []byte(wrong))
		expectEnd(t, connection, fmt.Sprintf("after %q", wrong))
	}
	// A message that cannot be read is passed over.
	connection := dial()
	send(t, connection, frame(message(unix.RTM_NEWROUTE, []byte{1, 0, 0, 0}, nl.NewAttributeEncoder()),
		add("192.0.2.0/24", "198.51.100.1"), add("2001:db8::/32", "2001:db8::1")))
	await(t, sink, "complete")
	if sink.Len() != 2 {
		t.Errorf("%d routes, not 2", sink.Len())
	}
}

// Its next hop is not known, or it cannot be read.
func TestARouteThatIsNotUnderstoodIsNotSwept(t *testing.T) {
	sink := sourcetest.NewSink()
	dial := start(t, sink, "")
	tellAndClose(t, sink, dial(), 20)
	connection := dial()
	wrong := nl.NewAttributeEncoder()
	wrong.Bytes(unix.RTA_DST, netip.MustParseAddr("2001:db8:1::").AsSlice())
	wrong.Bytes(unix.RTA_GATEWAY, []byte{1, 2, 3})
	send(t, connection, frame(route(unix.RTM_NEWROUTE, "2001:db8::/48", unix.RT_TABLE_MAIN, "", 5),
		message(unix.RTM_NEWROUTE, []byte{unix.AF_INET6, 48, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_BGP, 0, unix.RTN_UNICAST, 0, 0, 0, 0}, wrong)))
	addAll(t, connection, prefixes(20)[2:])
	await(t, sink, "complete")
	if sink.Len() != 20 {
		t.Errorf("%d routes, not 20", sink.Len())
	}
}

func TestANewConnectionEndsTheOneThatWasLeftOpen(t *testing.T) {
	sink := sourcetest.NewSink()
	dial := start(t, sink, "")
	first := dial()
	addAll(t, first, prefixes(3))
	await(t, sink, "complete")
	second := dial()
	addAll(t, second, prefixes(3))
	expectEnd(t, first, "the first connection")
	await(t, sink, "complete")
}

// Zebra dials again, and tells all that it has.
func TestAnAuditSweepsOnlyWhatIsNotToldAgain(t *testing.T) {
	sink := sourcetest.NewSink()
	dial := start(t, sink, "audit: 600ms")
	completed := func() int { return strings.Count(strings.Join(sink.Events(), " "), "complete") }
	for i, routes := range []int{20, 20, 19} {
		for before := completed(); completed() == before; {
			connection := dial()
			addAll(t, connection, prefixes(routes))
			expectEnd(t, connection, "a connection that is audited")
		}
		await(t, sink, "lost")
		if sink.Len() != routes || sink.Withdrawn() != 20-routes {
			t.Errorf("%d routes and %d withdrawals after audit %d", sink.Len(), sink.Withdrawn(), i+1)
		}
	}
}

func TestAnInterfaceThatComesLaterIsNamed(t *testing.T) {
	if !sourcetest.InNamespace(t) {
		return
	}
	sink := sourcetest.NewSink()
	encoder := nl.NewAttributeEncoder()
	encoder.Bytes(unix.RTA_DST, netip.MustParseAddr("2001:db8::").AsSlice())
	encoder.Uint32(unix.RTA_OIF, 77)
	send(t, start(t, sink, "")(), frame(message(unix.RTM_NEWROUTE,
		[]byte{unix.AF_INET6, 32, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_BGP, 0, unix.RTN_UNICAST, 0, 0, 0, 0}, encoder)))
	sourcetest.Eventually(t, "the route", func() bool { return sink.Text("2001:db8::/32") == "%if77" })
	sourcetest.Ip(t, "link add later index 77 type veth peer name other")
	sourcetest.Eventually(t, "the name", func() bool { return sink.Text("2001:db8::/32") == "%later" })
}

func TestAConnectionThatIsNotZebraEndsNothing(t *testing.T) {
	sink := sourcetest.NewSink()
	dial := start(t, sink, "")
	zebra := dial()
	addAll(t, zebra, prefixes(3))
	await(t, sink, "complete")
	dial() // says nothing
	wrong := dial()
	send(t, wrong, []byte("GET / HTTP/1.1\r\n\r\n"))
	expectEnd(t, wrong, "the wrong connection")
	addAll(t, zebra, prefixes(4))
	sourcetest.Eventually(t, "zebra is followed", func() bool { return sink.Len() == 4 })
	if got := strings.Join(sink.Events(), ", "); got != "lost, begun, complete" {
		t.Error(got)
	}
}

func TestConfigurationsThatMakeNoSenseAreRefused(t *testing.T) {
	for section, want := range map[string]string{
		"listen: nowhere":          "listen",
		"share: 2":                 "share",
		"share: .nan":              "share",
		"quiet: 0s":                "quiet",
		"audit: 29s":               "audit",
		"table: 0":                 "table",
		"protocols: [bgp, banana]": "banana",
		"lisen: x":                 "lisen",
	} {
		if _, err := New(sourcetest.Options(t, section)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", section, err)
		}
	}
}

// Whatever bytes come, reading them ends, and what is told of them does not depend on how they
// come.
func FuzzFrames(f *testing.F) {
	group := route(unix.RTM_NEWROUTE, "10.0.0.0/8", unix.RT_TABLE_MAIN, "", 7)
	whole := append(frame(add("2001:db8::/32", "2001:db8:ffff::1"), add("10.1.0.0/16", "192.0.2.1")), frame(remove("10.1.0.0/16"), group)...)
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add([]byte{1, 1, 0, 3})
	f.Add(append(frame(), frame([]byte{16, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})...))
	f.Fuzz(func(t *testing.T, data []byte) {
		var told [2]string
		for i, reader := range []io.Reader{bytes.NewReader(data), iotest.OneByteReader(bytes.NewReader(data))} {
			made, err := New(sourcetest.Options(t, "{}"))
			sourcetest.Check(t, err)
			source := made.(*fpm)
			sink := sourcetest.NewSink()
			s := &session{f: source, sink: sink, table: netlink.NewTable(source.rules, func(uint32) string { return "eth0" })}
			sink.Begin("")
			if s.read(reader) == nil {
				t.Error("no end")
			}
			for _, prefix := range sink.Prefixes() {
				text := sink.Text(prefix.String())
				if prefix != prefix.Masked() || text == "" {
					t.Errorf("%s: %q", prefix, text)
				}
				told[i] += prefix.String() + " " + text + "\n"
			}
		}
		if told[0] != told[1] {
			t.Errorf("%s\nand byte by byte\n%s", told[0], told[1])
		}
	})
}
