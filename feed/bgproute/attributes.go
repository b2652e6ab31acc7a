// SPDX-License-Identifier: Apache-2.0

package bgproute

import (
	"encoding/binary"
	"fmt"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/prometheus/client_golang/prometheus"

	"planb.dev/lookup/client/go/planbv1"
	"planb.dev/lookup/feed/source"
)

// What of a path's attributes its next hop has.
const (
	gatewayOnly = "gateway"
	originOnly  = "origin"
	full        = "full"
)

// Attributes are the options of sources of BGP routes that say what a next hop means.
type Attributes struct {
	// gateway, origin (the AS that the route comes from) or full (what the path has).
	Attributes string `yaml:"attributes"`
	// The AS of routes with an empty path; 0: that of the peer.
	LocalAS uint32 `yaml:"local_as"`

	cut prometheus.Counter
}

// Start checks the options, and adds the metric of the kind.
func (a *Attributes) Start(kind string, options source.Options) error {
	switch a.Attributes {
	case "":
		a.Attributes = gatewayOnly
	case gatewayOnly, originOnly, full:
	default:
		return fmt.Errorf("attributes: %q is not gateway, origin or full", a.Attributes)
	}
	a.cut = options.Counter(kind+"_attributes_cut_total", "Announcements with more attributes than the server takes.")
	return nil
}

// Of is what a path of a peer of the AS means.
func (a *Attributes) Of(path []bgp.PathAttributeInterface, peerAS uint32) source.Attributes {
	if a.Attributes == gatewayOnly {
		return ""
	}
	if a.LocalAS != 0 {
		peerAS = a.LocalAS
	}
	message := &planbv1.Attributes{AsPath: asPath(path)}
	if len(message.AsPath) == 0 && peerAS != 0 {
		message.AsPath = []*planbv1.Attributes_Segment{{Numbers: []uint32{peerAS}}}
	}
	message.OriginAs = source.Origin(message.AsPath)
	if a.Attributes == originOnly {
		message.AsPath = nil
	} else {
		addRest(message, path)
	}
	encoded, cut := source.EncodeAttributes(message)
	if cut {
		a.cut.Inc()
	}
	return encoded
}

func addRest(message *planbv1.Attributes, path []bgp.PathAttributeInterface) {
	for _, attribute := range path {
		switch attribute := attribute.(type) {
		case *bgp.PathAttributeCommunities:
			message.Communities = append(message.Communities, attribute.Value...)
		case *bgp.PathAttributeExtendedCommunities:
			for _, c := range attribute.Value {
				if bytes, err := c.Serialize(); err == nil && len(bytes) == 8 {
					message.ExtendedCommunities = append(message.ExtendedCommunities, binary.BigEndian.Uint64(bytes))
				}
			}
		case *bgp.PathAttributeLargeCommunities:
			for _, c := range attribute.Values {
				message.LargeCommunities = append(message.LargeCommunities, &planbv1.Attributes_LargeCommunity{
					GlobalAdministrator: c.ASN, LocalData_1: c.LocalData1, LocalData_2: c.LocalData2})
			}
		case *bgp.PathAttributeLocalPref:
			message.LocalPreference = &attribute.Value
		case *bgp.PathAttributeMultiExitDisc:
			message.Med = &attribute.Value
		}
	}
}

// asPath is the path without what is of confederations. Of a speaker with numbers of two
// bytes AS4_PATH has the last ones (RFC 6793); GoBGP has put them together already where it
// is the peer.
func asPath(path []bgp.PathAttributeInterface) (result []*planbv1.Attributes_Segment) {
	var later []*planbv1.Attributes_Segment
	old := false
	for _, attribute := range path {
		switch attribute := attribute.(type) {
		case *bgp.PathAttributeAsPath:
			for _, param := range attribute.Value {
				_, two := param.(*bgp.AsPathParam)
				old = old || two
				result = appendSegment(result, param)
			}
		case *bgp.PathAttributeAs4Path:
			for _, param := range attribute.Value {
				later = appendSegment(later, param)
			}
		}
	}
	keep := pathLength(result) - pathLength(later)
	if !old || len(later) == 0 || keep < 0 {
		return result
	}
	for i, s := range result {
		if size := pathLength(result[i : i+1]); size <= keep {
			keep -= size
			continue
		}
		if keep > 0 { // of a sequence: the length of a set is 1
			s.Numbers = s.Numbers[:keep]
			i++
		}
		return append(result[:i], later...)
	}
	return append(result, later...)
}

func appendSegment(to []*planbv1.Attributes_Segment, param bgp.AsPathParamInterface) []*planbv1.Attributes_Segment {
	kind, numbers := param.GetType(), param.GetAS()
	if kind != bgp.BGP_ASPATH_ATTR_TYPE_SET && kind != bgp.BGP_ASPATH_ATTR_TYPE_SEQ || len(numbers) == 0 {
		return to
	}
	// GoBGP's prefixes share their path: it is not changed.
	return append(to, &planbv1.Attributes_Segment{Set: kind == bgp.BGP_ASPATH_ATTR_TYPE_SET,
		Numbers: append([]uint32(nil), numbers...)})
}

// pathLength counts a set as one.
func pathLength(path []*planbv1.Attributes_Segment) (length int) {
	for _, s := range path {
		if s.Set {
			length++
		} else {
			length += len(s.Numbers)
		}
	}
	return length
}
