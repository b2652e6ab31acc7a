// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	"planb.dev/lookup/client/go/planbv1"
)

// What the server takes of attributes.
const (
	maxSegments    = 16
	maxNumbers     = 255
	maxCommunities = 128
	maxEncoded     = 4096
)

// Attributes is what a route means besides its next hop, encoded: of equal meanings one
// text. Empty: nothing.
type Attributes string

// EncodeAttributes encodes attributes, which it may change, and says whether something was
// cut to what the server takes. Communities and sets have no order and name each number once;
// sequences that follow each other are one. Of a long path the nearest ASes stay.
func EncodeAttributes(a *planbv1.Attributes) (encoded Attributes, cut bool) {
	if a == nil {
		return "", false
	}
	a.AsPath, cut = canonicalPath(a.AsPath)
	a.Communities = bounded(a.Communities, cmp.Compare, &cut)
	a.ExtendedCommunities = bounded(a.ExtendedCommunities, cmp.Compare, &cut)
	a.LargeCommunities = bounded(a.LargeCommunities, compareLarge, &cut)
	slices.SortFunc(a.Tags, func(x, y *planbv1.Attributes_Tag) int { return cmp.Compare(x.Key, y.Key) })
	for proto.Size(a) > maxEncoded {
		cut = true
		switch {
		case len(a.LargeCommunities) > 0:
			a.LargeCommunities = a.LargeCommunities[:len(a.LargeCommunities)-1]
		case len(a.ExtendedCommunities) > 0:
			a.ExtendedCommunities = a.ExtendedCommunities[:len(a.ExtendedCommunities)-1]
		case len(a.Tags) > 0:
			a.Tags = a.Tags[:len(a.Tags)-1]
		default:
			a.Communities = nil // what is left is smaller
		}
	}
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(a)
	if err != nil {
		return "", true // text that is no UTF-8
	}
	return Attributes(bytes), cut
}

// bounded are the communities in order, each once, as many as the server takes.
func bounded[T any](all []T, compare func(x, y T) int, cut *bool) []T {
	slices.SortFunc(all, compare)
	all = slices.CompactFunc(all, func(x, y T) bool { return compare(x, y) == 0 })
	*cut = *cut || len(all) > maxCommunities
	return all[:min(len(all), maxCommunities)]
}

// Decode is the message; nil for none.
func (a Attributes) Decode() *planbv1.Attributes {
	if a == "" {
		return nil
	}
	message := &planbv1.Attributes{}
	if proto.Unmarshal([]byte(a), message) != nil {
		return nil
	}
	return message
}

// Origin is the last AS of a path, 0 if the path ends with a set, also with one of a
// single AS (RFC 6811 section 2).
func Origin(path []*planbv1.Attributes_Segment) uint32 {
	if len(path) == 0 || path[len(path)-1].Set {
		return 0
	}
	last := path[len(path)-1].Numbers
	return last[len(last)-1]
}

func compareLarge(x, y *planbv1.Attributes_LargeCommunity) int {
	return cmp.Or(cmp.Compare(x.GlobalAdministrator, y.GlobalAdministrator),
		cmp.Compare(x.LocalData_1, y.LocalData_1), cmp.Compare(x.LocalData_2, y.LocalData_2))
}

func canonicalPath(segments []*planbv1.Attributes_Segment) (path []*planbv1.Attributes_Segment, cut bool) {
	left := maxNumbers
	for _, s := range segments {
		numbers := s.Numbers
		if s.Set {
			slices.Sort(numbers)
			numbers = slices.Compact(numbers)
		}
		joins, room := len(path) > 0 && !s.Set && !path[len(path)-1].Set, left
		if !joins && len(path) == maxSegments {
			room = 0
		}
		if len(numbers) > room {
			numbers, cut = numbers[:room], true
		}
		left -= len(numbers)
		switch {
		case len(numbers) == 0:
		case joins:
			last := path[len(path)-1]
			last.Numbers = append(slices.Clip(last.Numbers), numbers...)
		default:
			path = append(path, &planbv1.Attributes_Segment{Set: s.Set, Numbers: numbers})
		}
		if cut {
			break
		}
	}
	return path, cut
}
