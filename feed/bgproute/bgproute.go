// SPDX-License-Identifier: Apache-2.0

// Package bgproute turns what GoBGP's packages read of BGP into routes of sources.
package bgproute

import (
	"net/netip"
	"slices"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// Families are the two whose routes count.
var Families = []bgp.Family{bgp.RF_IPv4_UC, bgp.RF_IPv6_UC}

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
