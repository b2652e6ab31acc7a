// SPDX-License-Identifier: Apache-2.0

// Package bgproute turns what GoBGP's packages read of BGP into routes of sources.
package bgproute

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// Families are the two whose routes count.
var Families = []bgp.Family{bgp.RF_IPv4_UC, bgp.RF_IPv6_UC}

// MaxPaths bounds the paths of one prefix that are kept of one peer: each change of one costs
// as much as there are, and a peer with ADD-PATH numbers as many as it likes. A route has no
// more next hops.
const MaxPaths = 256

// CrowdedHelp says what is counted of others.
var CrowdedHelp = fmt.Sprintf("Paths that were left out because their prefix has %d of the peer already.", MaxPaths)

// Crowded says that there is no room for one more of those that are of a peer.
func Crowded[P any](paths []P, ofPeer func(P) bool) bool {
	count := 0
	for _, p := range paths {
		if len(paths) >= MaxPaths && ofPeer(p) {
			count++
		}
	}
	return count >= MaxPaths
}

// Gateway is the next hop of a path: that of MP_REACH_NLRI if there is one, beside which
// NEXT_HOP is of other prefixes. Not valid if there is none.
func Gateway(attributes []bgp.PathAttributeInterface) (result netip.Addr) {
	for _, attribute := range attributes {
		switch attribute := attribute.(type) {
		case *bgp.PathAttributeMpReachNLRI:
			if attribute.Nexthop.IsUnspecified() && attribute.LinkLocalNexthop.IsValid() {
				return attribute.LinkLocalNexthop
			}
			return attribute.Nexthop.Unmap()
		case *bgp.PathAttributeNextHop:
			result = attribute.Value
		}
	}
	return result
}

// Prefix is that of a path of the two families; false for others.
func Prefix(family bgp.Family, nlri bgp.NLRI) (netip.Prefix, bool) {
	prefix, ok := nlri.(*bgp.IPAddrPrefix)
	if !ok || !slices.Contains(Families, family) {
		return netip.Prefix{}, false
	}
	return prefix.Prefix.Masked(), true
}

// IsLongStale says that the peer is away and the path only kept (RFC 9494).
func IsLongStale(attributes []bgp.PathAttributeInterface) bool {
	for _, attribute := range attributes {
		if communities, ok := attribute.(*bgp.PathAttributeCommunities); ok {
			return slices.Contains(communities.Value, uint32(bgp.COMMUNITY_LLGR_STALE))
		}
	}
	return false
}

// Negotiated are the families that both sides announce.
func Negotiated(local, remote []bgp.ParameterCapabilityInterface) []bgp.Family {
	has := func(capabilities []bgp.ParameterCapabilityInterface, family bgp.Family) bool {
		any := false
		for _, c := range capabilities {
			if c, ok := c.(*bgp.CapMultiProtocol); ok {
				any = true
				if c.CapValue == family {
					return true
				}
			}
		}
		return !any && family == bgp.RF_IPv4_UC // a speaker without the capability
	}
	var result []bgp.Family
	for _, family := range Families {
		if has(local, family) && has(remote, family) {
			result = append(result, family)
		}
	}
	return result
}

// Named is what of an UPDATE names routes of the two families: of a message that cannot be
// read whole, those that are to be withdrawn (RFC 7606 section 4). It has an error if these
// cannot be read either, or if some may be missing.
func Named(message []byte, options ...*bgp.MarshallingOption) (*bgp.BGPUpdate, error) {
	if len(message) < bgp.BGP_HEADER_LENGTH || message[bgp.BGP_HEADER_LENGTH-1] != bgp.BGP_MSG_UPDATE {
		return nil, errNamed
	}
	length := int(binary.BigEndian.Uint16(message[bgp.BGP_HEADER_LENGTH-3:]))
	if length < bgp.BGP_HEADER_LENGTH || length > len(message) {
		return nil, errNamed
	}
	body := message[bgp.BGP_HEADER_LENGTH:length]
	withdrawn, rest, ok := cut(body)
	attributes, announced, too := cut(rest)
	if !ok || !too {
		return nil, errNamed
	}
	var kept []byte
	reaches, whole := len(announced) > 0, true
	for len(attributes) > 0 {
		kind, value, size := attribute(attributes)
		if size == 0 {
			whole = false
			break
		}
		reach := kind == bgp.BGP_ATTR_TYPE_MP_REACH_NLRI
		if reach || kind == bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI {
			if len(value) < 3 {
				return nil, errNamed
			}
			if slices.Contains(Families, bgp.NewFamily(binary.BigEndian.Uint16(value), value[2])) {
				kept, reaches = append(kept, attributes[:size]...), reaches || reach
			}
		}
		attributes = attributes[size:]
	}
	// One that was not found could be what names routes (section 5.2).
	if !whole && !reaches {
		return nil, errNamed
	}
	body = append(binary.BigEndian.AppendUint16(nil, uint16(len(withdrawn))), withdrawn...)
	body = append(append(binary.BigEndian.AppendUint16(body, uint16(len(kept))), kept...), announced...)
	update := &bgp.BGPUpdate{}
	if err := decode(update, body, options); err != nil {
		return nil, err
	}
	return update, nil
}

var errNamed = errors.New("the routes that an UPDATE names cannot be read")

// decode has an error where GoBGP panics.
func decode(update *bgp.BGPUpdate, body []byte, options []*bgp.MarshallingOption) (err error) {
	defer func() {
		if recover() != nil {
			err = errNamed
		}
	}()
	return update.DecodeFromBytes(body, options...)
}

// cut divides at a length of two bytes.
func cut(b []byte) (before, after []byte, ok bool) {
	if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
		return nil, nil, false
	}
	size := 2 + int(binary.BigEndian.Uint16(b))
	return b[2:size], b[size:], true
}

// attribute is the first one of several; its size is 0 if it has no end.
func attribute(b []byte) (kind bgp.BGPAttrType, value []byte, size int) {
	head := 3
	if len(b) < head {
		return 0, nil, 0
	}
	size = int(b[2])
	if bgp.BGPAttrFlag(b[0])&bgp.BGP_ATTR_FLAG_EXTENDED_LENGTH != 0 {
		if head++; len(b) < head {
			return 0, nil, 0
		}
		size = int(binary.BigEndian.Uint16(b[2:]))
	}
	if size += head; size > len(b) {
		return 0, nil, 0
	}
	return bgp.BGPAttrType(b[1]), b[head:size], size
}
