// SPDX-License-Identifier: Apache-2.0

package bmp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/packet/bmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"planb.dev/lookup/feed/source/sourcetest"
)

// newFollower takes messages without a connection.
func newFollower(t *testing.T, section string) (*follower, *sourcetest.Sink) {
	t.Helper()
	made, err := New(sourcetest.Options(t, "routers: ['::1']\n"+section))
	if err != nil {
		t.Fatal(err)
	}
	s, sink := made.(*station), sourcetest.NewSink()
	f := &follower{s: s, t: newTable(s, sink), router: netip.IPv6Loopback(), peers: map[peerKey]*peer{}}
	t.Cleanup(func() {
		f.lose()
		f.t.quiet.Wait()
	})
	return f, sink
}

func (f *follower) takeAll(t *testing.T, messages ...[]byte) {
	t.Helper()
	for _, data := range messages {
		if err := f.take(data); err != nil {
			t.Fatal(err)
		}
	}
	f.t.tell()
}

// monitoring is a message of an UPDATE of these parts.
func monitoring(h bmp.BMPPeerHeader, withdrawn, attributes, announced []byte) []byte {
	part := func(b []byte) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...) }
	body := append(append(part(withdrawn), part(attributes)...), announced...)
	update := append(bytes.Repeat([]byte{0xff}, 16), 0, 0, bgp.BGP_MSG_UPDATE)
	binary.BigEndian.PutUint16(update[16:], uint16(len(update)+len(body)))
	data := encode(bmp.NewBMPRouteMonitoring(h, bgp.NewEndOfRib(bgp.RF_IPv4_UC)))
	data = append(data[:bmp.BMP_HEADER_SIZE+bmp.BMP_PEER_HEADER_SIZE], append(update, body...)...)
	binary.BigEndian.PutUint32(data[1:], uint32(len(data)))
	return data
}

func TestAnUpdateThatCannotBeReadWithdrawsWhatItNames(t *testing.T) {
	tooLong := []byte{0x40, 2, 9, 2, 1, 0, 0} // AS_PATH, longer than all attributes
	noMED := []byte{0x80, 4, 1, 0}            // one byte instead of four
	origin := []byte{0x40, 1, 1, 0}
	hop := []byte{0x40, 3, 4, 192, 0, 2, 9}
	reach := func(safi byte) []byte {
		b := append([]byte{0x80, 14, 0, 0, 2, safi, 16}, netip.MustParseAddr("2001:db8:ffff::1").AsSlice()...)
		b = append(b, 0, 48, 0x20, 1, 0xd, 0xb8, 0, 1)
		b[2] = byte(len(b) - 3)
		return b
	}
	ten := []byte{8, 10}
	const all = "10.0.0.0/8 11.0.0.0/8 " + p1
	for name, c := range map[string]struct {
		attributes, announced []byte
		left                  string
		state                 string
		withdrawn             float64
	}{
		"an attribute that is to be discarded": {slices.Concat(origin, []byte{0x40, 6, 1, 0}, hop), ten, all, "begun", 0},
		"an attribute of a wrong length":       {slices.Concat(origin, noMED), ten, "11.0.0.0/8 " + p1, "begun", 1},
		"an attribute without an end":          {slices.Concat(origin, tooLong), ten, "11.0.0.0/8 " + p1, "begun", 1},
		"one beside MP_REACH_NLRI":             {slices.Concat(origin, noMED, reach(1)), nil, "10.0.0.0/8 11.0.0.0/8", "begun", 1},
		"one of another family":                {slices.Concat(origin, noMED, reach(2)), nil, all, "begun", 0},
		"one that may hide MP_REACH_NLRI":      {slices.Concat(origin, tooLong), nil, all, "lost", 0},
		"MP_REACH_NLRI twice":                  {slices.Concat(origin, reach(1), reach(1)), nil, all, "lost", 0},
		"a prefix that is none":                {slices.Concat(origin, noMED), []byte{99, 10}, all, "lost", 0},
		"the length of the attributes":         {nil, nil, all, "lost", 0},
	} {
		for _, section := range []string{"", "multipath: true"} {
			f, sink := newFollower(t, section)
			path := slices.Concat(origin, []byte{0x40, 2, 0}, hop)
			f.takeAll(t, up(own, 0, 0), add(own, p1, "2001:db8:ffff::1", 0), monitoring(own, nil, path, []byte{8, 10, 8, 11}))
			data := monitoring(own, nil, c.attributes, c.announced)
			if c.attributes == nil {
				data[len(data)-1] = 9
			}
			f.takeAll(t, data, add(own, p2, "2001:db8:ffff::1", 0))
			want := c.left
			if c.state != "lost" {
				want += " " + p2
			}
			if got := strings.Trim(fmt.Sprint(sink.Prefixes()), "[]"); got != want || sink.State("::1") != c.state {
				t.Errorf("%s: %s, %s", name, got, sink.State("::1"))
			}
			lost := map[bool]float64{true: 1}[c.state == "lost"]
			if testutil.ToFloat64(f.s.withdrawn) != c.withdrawn || testutil.ToFloat64(f.s.doubted) != lost ||
				testutil.ToFloat64(f.s.malformed) != 1 {
				t.Errorf("%s: %v withdrawn, %v doubted, %v malformed", name, testutil.ToFloat64(f.s.withdrawn),
					testutil.ToFloat64(f.s.doubted), testutil.ToFloat64(f.s.malformed))
			}
		}
	}
}

// GoBGP numbers them anew each time.
func TestAPathThatIsRefusedTakesThePlaceOfTheOneBefore(t *testing.T) {
	refused := add(own, p1, "2001:db8:ffff::2", 2, numbered)
	at := bytes.Index(refused, []byte{0x40, 1, 1, 0}) // ORIGIN
	refused[at] = 0x80                                // which is not optional
	for more, want := range map[string]string{"": "", "multipath: true": "2001:db8:ffff::1"} {
		f, sink := newFollower(t, more)
		f.takeAll(t, up(own, bgp.BGP_ADD_PATH_BOTH, bgp.BGP_ADD_PATH_BOTH), add(own, p1, "2001:db8:ffff::1", 1, numbered), refused)
		if got := sink.Text(p1); got != want {
			t.Errorf("%q: %s, not %s", more, got, want)
		}
	}
	f, sink := newFollower(t, adjacent)
	a := post("2001:db8::a", 65010)
	f.takeAll(t, up(a, 0, 0), add(a, p1, "2001:db8:ffff::1", 0), add(a, p1, "::", 0)) // without a next hop
	if got := sink.Text(p1); got != "" {
		t.Error(got)
	}
}

func TestAMessageOfAPeerThatCannotBeReadPutsItInDoubt(t *testing.T) {
	a, b, unnamed := post("2001:db8::a", 65010), post("2001:db8::b", 65011), post("2001:db8::c", 65012)
	const sessionA, sessionB = "::1 2001:db8::a", "::1 2001:db8::b"
	short := func(data []byte, by int) []byte {
		data = slices.Clone(data[:len(data)-by])
		binary.BigEndian.PutUint32(data[1:], uint32(len(data)))
		return data
	}
	for name, data := range map[string][]byte{
		"an end without a reason": short(down(a), 1),
		"a start that is cut":     short(up(a, 0, 0), 20),
		"routes that are cut":     short(add(a, p1, "2001:db8:ffff::1", 0), 1),
		"no routes":               short(add(a, p1, "2001:db8:ffff::1", 0), 60),
	} {
		f, sink := newFollower(t, adjacent)
		f.takeAll(t, up(a, 0, 0), up(b, 0, 0), add(a, p1, "2001:db8:ffff::1", 0), add(b, p2, "2001:db8:ffff::2", 0), data)
		if sink.State(sessionA) != "lost" || sink.State(sessionB) != "begun" || sink.Len() != 2 {
			t.Errorf("%s: %s, %s, %d routes", name, sink.State(sessionA), sink.State(sessionB), sink.Len())
		}
	}
	f, sink := newFollower(t, adjacent)
	f.takeAll(t, up(a, 0, 0), short(up(unnamed, 0, 0), 20))
	if sink.State(sessionA) != "begun" || testutil.ToFloat64(f.s.doubted) != 0 {
		t.Error("a peer that does not count is in doubt")
	}
	if err := f.take(short(down(a), 10)); err == nil {
		t.Error("whose end it is was not read, and no peer ended")
	}
}

func TestARouterTellsAgainWhatIsInDoubt(t *testing.T) {
	defer func(usual time.Duration) { redialTime = usual }(redialTime)
	redialTime = 50 * time.Millisecond
	broken := add(own, p1, "2001:db8:ffff::1", 0)
	broken[len(broken)-7] = 200 // the length of the prefix
	sink := sourcetest.NewSink()
	port := start(t, sink, "")
	r := dial(t, port, "127.0.0.2")
	r.send(hello(), up(own, 0, 0), add(own, p2, "2001:db8:ffff::1", 0), broken)
	r.SetReadDeadline(time.Now().Add(sourcetest.Patience))
	if _, err := r.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("the connection goes on: %v", err)
	}
	await(t, sink, "127.0.0.2", "lost")
	if sink.Len() != 1 {
		t.Errorf("%v", sink.Prefixes())
	}
	r = dial(t, port, "127.0.0.2")
	r.send(hello(), up(own, 0, 0), add(own, p2, "2001:db8:ffff::1", 0), add(own, p1, "2001:db8:ffff::1", 0), ends(own))
	await(t, sink, "127.0.0.2", "complete")
}
