// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"encoding/binary"
	"net/netip"
	"reflect"
	"testing"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// message makes the bytes of a message of a kind with a fixed part.
func message(kind uint16, flags nl.HeaderFlags, fixed []byte, attributes func(*nl.AttributeEncoder)) []byte {
	encoder := nl.NewAttributeEncoder()
	attributes(encoder)
	b, err := encoder.Encode()
	if err != nil {
		panic(err)
	}
	m := nl.Message{Header: nl.Header{Type: nl.HeaderType(kind), Flags: flags}, Data: append(fixed, b...)}
	m.Header.Length = uint32(unix.NLMSG_HDRLEN + len(m.Data))
	result, err := m.MarshalBinary()
	if err != nil {
		panic(err)
	}
	return result
}

func routeHead(family, bits, table, protocol uint8) []byte {
	return []byte{family, bits, 0, 0, table, protocol, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNICAST, 0, 0, 0, 0}
}

func bytesOf(address string) []byte { return netip.MustParseAddr(address).AsSlice() }

// nextHopBytes makes a member of RTA_MULTIPATH.
func nextHopBytes(weight uint8, link uint32, gateway string) []byte {
	encoder := nl.NewAttributeEncoder()
	encoder.Bytes(unix.RTA_GATEWAY, bytesOf(gateway))
	attributes, _ := encoder.Encode()
	b := binary.NativeEndian.AppendUint16(nil, uint16(8+len(attributes)))
	b = binary.NativeEndian.AppendUint32(append(b, 0, weight-1), link)
	return append(b, attributes...)
}

func seeds() map[string][]byte {
	return map[string][]byte{
		"route": message(unix.RTM_NEWROUTE, nl.Replace|nl.Create, routeHead(unix.AF_INET6, 32, 254, unix.RTPROT_BGP), func(e *nl.AttributeEncoder) {
			e.Bytes(unix.RTA_DST, bytesOf("2001:db8::"))
			e.Bytes(unix.RTA_GATEWAY, bytesOf("fe80::1"))
			e.Uint32(unix.RTA_OIF, 3)
			e.Uint32(unix.RTA_PRIORITY, 20)
		}),
		"multipath": message(unix.RTM_NEWROUTE, 0, routeHead(unix.AF_INET, 24, 0, unix.RTPROT_STATIC), func(e *nl.AttributeEncoder) {
			e.Bytes(unix.RTA_DST, bytesOf("192.0.2.0"))
			e.Uint32(unix.RTA_TABLE, 1000)
			e.Bytes(unix.RTA_MULTIPATH, append(nextHopBytes(1, 2, "198.51.100.1"), nextHopBytes(3, 3, "198.51.100.2")...))
		}),
		"via": message(unix.RTM_DELROUTE, 0, routeHead(unix.AF_INET, 0, 254, 0), func(e *nl.AttributeEncoder) {
			e.Bytes(unix.RTA_VIA, append([]byte{unix.AF_INET6, 0}, bytesOf("2001:db8::9")...))
			e.Uint32(rtaNhID, 77)
		}),
		"clone": message(unix.RTM_NEWROUTE, 0, binary.NativeEndian.AppendUint32(
			routeHead(unix.AF_INET6, 128, 254, unix.RTPROT_BGP)[:8], unix.RTM_F_CLONED), func(e *nl.AttributeEncoder) {
			e.Bytes(unix.RTA_DST, bytesOf("2001:db8::1"))
			e.Bytes(unix.RTA_GATEWAY, bytesOf("fe80::1"))
		}),
		"group": message(unix.RTM_NEWNEXTHOP, 0, make([]byte, 8), func(e *nl.AttributeEncoder) {
			e.Uint32(unix.NHA_ID, 9)
			e.Bytes(unix.NHA_GROUP, []byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 4, 9, 0, 0})
		}),
		"group of wide weights": message(unix.RTM_NEWNEXTHOP, 0, make([]byte, 8), func(e *nl.AttributeEncoder) {
			e.Uint32(unix.NHA_ID, 9)
			e.Bytes(unix.NHA_GROUP, []byte{1, 0, 0, 0, 0x2b, 1, 0, 0, 2, 0, 0, 0, 0xff, 0xff, 0, 0})
			e.Uint32(nhaOpFlags, wideWeights)
		}),
		"next hop": message(unix.RTM_DELNEXTHOP, 0, make([]byte, 8), func(e *nl.AttributeEncoder) {
			e.Uint32(unix.NHA_ID, 1)
			e.Bytes(unix.NHA_GATEWAY, bytesOf("192.0.2.9"))
			e.Uint32(unix.NHA_OIF, 4)
		}),
		"link": message(unix.RTM_NEWLINK, 0, []byte{0, 0, 1, 0, 5, 0, 0, 0, unix.IFF_UP | unix.IFF_RUNNING, 0, 0, 0, 0, 0, 0, 0}, func(e *nl.AttributeEncoder) {
			e.String(unix.IFLA_IFNAME, "eth0")
		}),
	}
}

func decodeAll(b []byte) (results []any, err error) {
	err = Split(b, func(m nl.Message) error {
		result, err := Decode(m)
		results = append(results, result)
		return err
	})
	return results, err
}

func TestMessagesAreDecoded(t *testing.T) {
	addr, prefix := netip.MustParseAddr, netip.MustParsePrefix
	want := map[string]any{
		"route": &Route{Replace: true, Prefix: prefix("2001:db8::/32"), Table: 254,
			Protocol: unix.RTPROT_BGP, Type: unix.RTN_UNICAST, Metric: 20,
			Hops: []Hop{{Gateway: addr("fe80::1"), Link: 3, Weight: 1}}},
		"multipath": &Route{Prefix: prefix("192.0.2.0/24"), Table: 1000,
			Protocol: unix.RTPROT_STATIC, Type: unix.RTN_UNICAST, Hops: []Hop{
				{Gateway: addr("198.51.100.1"), Link: 2, Weight: 1},
				{Gateway: addr("198.51.100.2"), Link: 3, Weight: 3}}},
		"via": &Route{Delete: true, Prefix: prefix("0.0.0.0/0"), Table: 254,
			Type: unix.RTN_UNICAST, GroupID: 77,
			Hops: []Hop{{Gateway: addr("2001:db8::9"), Weight: 1}}},
		"clone": &Route{Cloned: true, Prefix: prefix("2001:db8::1/128"), Table: 254,
			Protocol: unix.RTPROT_BGP, Type: unix.RTN_UNICAST, Hops: []Hop{{Gateway: addr("fe80::1"), Weight: 1}}},
		"group":                 &NextHop{ID: 9, Hop: Hop{Weight: 1}, Group: []Member{{1, 1}, {2, 5}}},
		"group of wide weights": &NextHop{ID: 9, Hop: Hop{Weight: 1}, Group: []Member{{1, 300}, {2, 65536}}},
		"next hop": &NextHop{Delete: true, ID: 1,
			Hop: Hop{Gateway: addr("192.0.2.9"), Link: 4, Weight: 1}},
		"link": &Link{Index: 5, Name: "eth0", Up: true, Carrier: true},
	}
	for name, b := range seeds() {
		got, err := decodeAll(b)
		if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], want[name]) {
			t.Errorf("%s: %+v, %v, not %+v", name, got, err, want[name])
		}
	}
}

func TestADeadPathDoesNotCountBesideALiveOne(t *testing.T) {
	a, b := nextHopBytes(1, 2, "198.51.100.1"), nextHopBytes(1, 3, "198.51.100.2")
	a[2] = unix.RTNH_F_DEAD
	if hops, err := multipath(append(a, b...)); err != nil || len(hops) != 1 || hops[0].Link != 3 {
		t.Errorf("%v, %v", hops, err)
	}
	if hops, err := multipath(a); err != nil || len(hops) != 1 {
		t.Errorf("%v, %v", hops, err)
	}
}

// Groups of groups without a path would cost a product of their sizes.
func TestAGroupWithoutMembersIsRefused(t *testing.T) {
	_, err := decodeAll(message(unix.RTM_NEWNEXTHOP, 0, make([]byte, 8), func(e *nl.AttributeEncoder) {
		e.Uint32(unix.NHA_ID, 9)
		e.Bytes(unix.NHA_GROUP, nil)
	}))
	if err == nil {
		t.Error("no error")
	}
}

func TestOfTooManyPathsOneMoreIsKept(t *testing.T) {
	var paths, members []byte
	for i := range 2 * MaxHops {
		paths = append(paths, nextHopBytes(1, uint32(i+1), "198.51.100.1")...)
		members = binary.NativeEndian.AppendUint32(members, uint32(i+1))
		members = append(members, 0, 0, 0, 0)
	}
	if hops, err := multipath(paths); err != nil || len(hops) != MaxHops+1 {
		t.Errorf("%d paths, %v", len(hops), err)
	}
	if all, err := group(members, false); err != nil || len(all) != MaxHops+1 {
		t.Errorf("%d members, %v", len(all), err)
	}
}

// Each length is cut, and each byte of a length is made wrong: nothing reads past
// the end, which would panic.
func TestMessagesThatAreCutAreRefusedOrShorter(t *testing.T) {
	for name, b := range seeds() {
		for end := range b {
			if _, err := decodeAll(b[:end]); err == nil && end > 0 {
				t.Errorf("%s: the first %d bytes are taken for a message", name, end)
			}
		}
		for at := range b {
			for _, value := range []byte{0, 1, 0x7f, 0xff} {
				wrong := append([]byte(nil), b...)
				wrong[at] = value
				decodeAll(wrong)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, b := range seeds() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		table := NewTable(Rules{Table: 254}, func(uint32) string { return "" })
		results, _ := decodeAll(b)
		for _, result := range results {
			switch m := result.(type) {
			case *Route:
				if !m.Prefix.IsValid() || m.Prefix != m.Prefix.Masked() || len(m.Hops) > MaxHops+1 {
					t.Errorf("%+v", m)
				}
				m.Table = 254
				table.Route(m)
			case *NextHop:
				table.NextHop(m)
			}
		}
		for _, route := range table.Changes() {
			if len(route.Paths) > MaxHops {
				t.Errorf("%d paths", len(route.Paths))
			}
		}
	})
}
