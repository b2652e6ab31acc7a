// SPDX-License-Identifier: Apache-2.0

// Package netlink understands what the kernel, and FRR on its FPM connection, say of
// routes, next-hop objects and links.
package netlink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Not in package unix.
const (
	rtaNhID    = 30
	nhaFDB     = 11
	nhaOpFlags = 14
	// In NHA_OP_FLAGS: weights of a group have two bytes, as of Linux 6.12. Without it the
	// second one may be anything.
	wideWeights = 1 << 31
)

// MaxHops bounds the paths of a route that is told. Of a route or a group with more, one
// more is kept, which says so.
const MaxHops = 1024

// Hop is one path: a gateway, a link, or both.
type Hop struct {
	Gateway   netip.Addr // not valid: the destination is on the link
	Link      uint32     // the index of the interface; 0: not said
	Weight    uint32     // 1 and more
	Blackhole bool       // packets are dropped
}

// Route is RTM_NEWROUTE or RTM_DELROUTE.
type Route struct {
	Delete  bool
	Replace bool // takes the place of the route of the same key
	Append  bool // comes after that route
	Cloned  bool // a cache entry, not a route
	// Selects packets by more than their destination: by source or class.
	Selective bool
	Prefix    netip.Prefix
	Table     uint32 // 0: not said
	Protocol  uint8
	Type      uint8 // unix.RTN_UNICAST and so on
	Metric    uint32
	GroupID   uint32 // the next-hop object; 0: none
	Hops      []Hop  // beside a GroupID: what the kernel resolved it to
}

// NextHop is RTM_NEWNEXTHOP or RTM_DELNEXTHOP: one path, or a group of objects.
type NextHop struct {
	Delete bool
	ID     uint32
	Hop    Hop
	Group  []Member
	FDB    bool // for bridges; no route uses it
	Unread bool // it is there, and what it says cannot be read
}

// Member is an object in a group.
type Member struct {
	ID     uint32
	Weight uint32
}

// Link is RTM_NEWLINK or RTM_DELLINK.
type Link struct {
	Delete bool
	Index  uint32
	Name   string
	Up     bool
	// The other end is there. Without it the kernel ends the next-hop objects of the link.
	Carrier bool
}

// Decode returns a *Route, a *NextHop, a *Link, or nil for a message of another kind.
// What a message says is checked against its length; unknown attributes are passed over.
// With an error comes the route without paths if its prefix could be read, and the next hop
// as one that was not read if its id could.
func Decode(m nl.Message) (any, error) {
	var result any
	var err error
	switch m.Header.Type {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		result, err = decodeRoute(m)
	case unix.RTM_NEWNEXTHOP, unix.RTM_DELNEXTHOP:
		result, err = decodeNextHop(m)
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		result, err = decodeLink(m)
	default:
		return nil, nil
	}
	if err != nil {
		return result, fmt.Errorf("netlink message of type %d: %w", m.Header.Type, err)
	}
	return result, nil
}

// Split calls `each` for the messages that `b` consists of.
func Split(b []byte, each func(nl.Message) error) error {
	for len(b) > 0 {
		if len(b) < unix.NLMSG_HDRLEN {
			return fmt.Errorf("%d bytes behind the last netlink message", len(b))
		}
		length := binary.NativeEndian.Uint32(b)
		if length < unix.NLMSG_HDRLEN || uint64(length) > uint64(len(b)) {
			return fmt.Errorf("a netlink message of %d bytes in %d", length, len(b))
		}
		m := nl.Message{
			Header: nl.Header{
				Length:   length,
				Type:     nl.HeaderType(binary.NativeEndian.Uint16(b[4:])),
				Flags:    nl.HeaderFlags(binary.NativeEndian.Uint16(b[6:])),
				Sequence: binary.NativeEndian.Uint32(b[8:]),
				PID:      binary.NativeEndian.Uint32(b[12:]),
			},
			Data: b[unix.NLMSG_HDRLEN:length],
		}
		if err := each(m); err != nil {
			return err
		}
		b = b[min(len(b), int(length+3)&^3):]
	}
	return nil
}

func decodeRoute(m nl.Message) (any, error) {
	b := m.Data
	if len(b) < unix.SizeofRtMsg {
		return nil, errShort
	}
	family, bits := b[0], int(b[1])
	route := &Route{
		Delete:    m.Header.Type == unix.RTM_DELROUTE,
		Replace:   m.Header.Flags&nl.Replace != 0,
		Append:    m.Header.Flags&nl.Append != 0,
		Cloned:    binary.NativeEndian.Uint32(b[8:])&unix.RTM_F_CLONED != 0,
		Selective: b[2] != 0 || b[3] != 0,
		Table:     uint32(b[4]),
		Protocol:  b[5],
		Type:      b[7],
	}
	var destination netip.Addr
	switch family {
	case unix.AF_INET:
		destination = netip.IPv4Unspecified()
	case unix.AF_INET6:
		destination = netip.IPv6Unspecified()
	default:
		return nil, nil // such as MPLS
	}
	var hop Hop
	attributes, err := nl.NewAttributeDecoder(b[unix.SizeofRtMsg:])
	if err != nil {
		return nil, err
	}
	for attributes.Next() {
		switch attributes.Type() {
		case unix.RTA_DST:
			attributes.Do(func(b []byte) (err error) {
				destination, err = address(b, destination.BitLen())
				return err
			})
		case unix.RTA_TABLE:
			route.Table = attributes.Uint32()
		case unix.RTA_PRIORITY:
			route.Metric = attributes.Uint32()
		case rtaNhID:
			route.GroupID = attributes.Uint32()
		case unix.RTA_MULTIPATH:
			attributes.Do(func(b []byte) (err error) {
				route.Hops, err = multipath(b)
				return err
			})
		default:
			hopAttribute(attributes, &hop)
		}
	}
	if bits > destination.BitLen() {
		return nil, errors.Join(attributes.Err(), fmt.Errorf("a prefix of %d bits", bits))
	}
	route.Prefix = netip.PrefixFrom(destination, bits).Masked()
	if err := attributes.Err(); err != nil {
		if destination.IsUnspecified() && bits > 0 {
			return nil, err // the prefix was not read
		}
		route.Hops, route.GroupID = nil, 0
		return route, err
	}
	switch route.Type {
	case unix.RTN_BLACKHOLE, unix.RTN_UNREACHABLE, unix.RTN_PROHIBIT:
		// The kernel gives such a route of IPv6 the link "lo".
		route.Hops = []Hop{{Weight: 1, Blackhole: true}}
	default:
		if hop != (Hop{}) {
			hop.Weight = 1
			route.Hops = appendHop(route.Hops, hop)
		}
	}
	return route, nil
}

// hopAttribute takes what a route and a member of its RTA_MULTIPATH have in common.
func hopAttribute(attributes *nl.AttributeDecoder, hop *Hop) {
	switch attributes.Type() {
	case unix.RTA_OIF:
		hop.Link = attributes.Uint32()
	case unix.RTA_GATEWAY:
		attributes.Do(func(b []byte) (err error) {
			hop.Gateway, err = address(b, 8*len(b))
			return err
		})
	case unix.RTA_VIA: // an IPv4 route by an IPv6 gateway: a family, then the address
		attributes.Do(func(b []byte) (err error) {
			if len(b) < 2 {
				return errShort
			}
			hop.Gateway, err = address(b[2:], 8*(len(b)-2))
			return err
		})
	}
}

// multipath reads RTA_MULTIPATH. Paths over links that are down do not count while there
// is another.
func multipath(b []byte) ([]Hop, error) {
	var hops, dead []Hop
	for len(b) > 0 {
		if len(b) < unix.SizeofRtNexthop {
			return nil, errShort
		}
		length := int(binary.NativeEndian.Uint16(b))
		if length < unix.SizeofRtNexthop || length > len(b) {
			return nil, fmt.Errorf("a path of %d bytes in %d", length, len(b))
		}
		hop := Hop{Weight: uint32(b[3]) + 1, Link: binary.NativeEndian.Uint32(b[4:])}
		attributes, err := nl.NewAttributeDecoder(b[unix.SizeofRtNexthop:length])
		if err != nil {
			return nil, err
		}
		for attributes.Next() {
			hopAttribute(attributes, &hop)
		}
		if err := attributes.Err(); err != nil {
			return nil, err
		}
		if b[2]&unix.RTNH_F_DEAD != 0 {
			dead = appendHop(dead, hop)
		} else {
			hops = appendHop(hops, hop)
		}
		b = b[min(len(b), (length+3)&^3):]
	}
	if len(hops) == 0 {
		return dead, nil
	}
	return hops, nil
}

func appendHop(hops []Hop, hop Hop) []Hop {
	if len(hops) > MaxHops {
		return hops
	}
	return append(hops, hop)
}

func decodeNextHop(m nl.Message) (any, error) {
	if len(m.Data) < unix.SizeofNhmsg {
		return nil, errShort
	}
	object := &NextHop{Delete: m.Header.Type == unix.RTM_DELNEXTHOP, Hop: Hop{Weight: 1}}
	attributes, err := nl.NewAttributeDecoder(m.Data[unix.SizeofNhmsg:])
	if err != nil {
		return nil, err
	}
	var members []byte
	isGroup, wide := false, false
	for attributes.Next() {
		switch attributes.Type() {
		case unix.NHA_ID:
			object.ID = attributes.Uint32()
		case unix.NHA_GROUP:
			members, isGroup = attributes.Bytes(), true
		case nhaOpFlags:
			wide = attributes.Uint32()&wideWeights != 0
		case unix.NHA_BLACKHOLE:
			object.Hop.Blackhole = attributes.Flag()
		case unix.NHA_OIF:
			object.Hop.Link = attributes.Uint32()
		case unix.NHA_GATEWAY:
			attributes.Do(func(b []byte) (err error) {
				object.Hop.Gateway, err = address(b, 8*len(b))
				return err
			})
		case nhaFDB:
			object.FDB = attributes.Flag()
		}
	}
	err = attributes.Err()
	if object.ID == 0 {
		return nil, errors.Join(err, errors.New("a next hop without an id"))
	}
	if isGroup && err == nil {
		object.Group, err = group(members, wide)
	}
	if err != nil {
		return &NextHop{Delete: object.Delete, ID: object.ID, Unread: true}, err
	}
	return object, nil
}

// group reads the array of struct nexthop_grp: an id, the lower byte of a weight less one,
// its upper byte if weights are wide, and spare bytes.
func group(b []byte, wide bool) ([]Member, error) {
	if len(b)%unix.SizeofNexthopGrp != 0 {
		return nil, errShort
	}
	// Every member leads to a path: that bounds what a group of groups can cost.
	if len(b) == 0 {
		return nil, errors.New("a group without members")
	}
	b = b[:min(len(b), (MaxHops+1)*unix.SizeofNexthopGrp)]
	members := make([]Member, 0, len(b)/unix.SizeofNexthopGrp)
	for ; len(b) > 0; b = b[unix.SizeofNexthopGrp:] {
		weight := uint32(b[4])
		if wide {
			weight |= uint32(b[5]) << 8
		}
		members = append(members, Member{ID: binary.NativeEndian.Uint32(b), Weight: weight + 1})
	}
	return members, nil
}

func decodeLink(m nl.Message) (any, error) {
	b := m.Data
	if len(b) < unix.SizeofIfInfomsg {
		return nil, errShort
	}
	if b[0] == unix.AF_BRIDGE {
		return nil, nil // tells of a port of a bridge, not of the link
	}
	link := &Link{
		Delete: m.Header.Type == unix.RTM_DELLINK,
		Index:  binary.NativeEndian.Uint32(b[4:]),
	}
	flags := binary.NativeEndian.Uint32(b[8:])
	link.Up = flags&unix.IFF_UP != 0
	link.Carrier = flags&(unix.IFF_RUNNING|unix.IFF_LOWER_UP) != 0
	attributes, err := nl.NewAttributeDecoder(b[unix.SizeofIfInfomsg:])
	if err != nil {
		return nil, err
	}
	for attributes.Next() {
		if attributes.Type() == unix.IFLA_IFNAME {
			link.Name = attributes.String()
		}
	}
	if err := attributes.Err(); err != nil {
		return nil, err
	}
	if len(link.Name) >= unix.IFNAMSIZ {
		return nil, errors.New("the name of a link is too long")
	}
	return link, nil
}

func address(b []byte, bits int) (netip.Addr, error) {
	result, ok := netip.AddrFromSlice(b)
	if !ok || result.BitLen() != bits {
		return netip.Addr{}, fmt.Errorf("an address of %d bytes", len(b))
	}
	return result, nil
}

var errShort = errors.New("too short")
