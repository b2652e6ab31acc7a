// SPDX-License-Identifier: Apache-2.0

package rib

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unique"

	"planb.dev/lookup/client/go/planbv1"
	"planb.dev/lookup/feed/source"
)

// What the server takes of a next hop and of a group.
const (
	maxInterface = 64
	maxLabel     = 256
	maxMembers   = 256
	maxWeight    = 1<<24 - 1 // a sum of maxMembers of them is below 2^32
)

// A set of paths in its canonical form, one copy for all routes that have it: the
// next hops by what they mean, each once, in order, with weights without a common
// divisor. Or the id that the source gave. The zero set is no route.
type pathSet = unique.Handle[string]

const (
	fieldEnd  = "\x1f" // no text of a next hop has control characters
	memberEnd = "\x1e"
	givenID   = "#"
)

// A member of a set: what the next hop means, and its share.
type member struct {
	meaning string
	weight  uint32
}

// What a next hop means, as a key. REQUIRES: gateway has no zone.
func meaningOf(gateway netip.Addr, iface, label string, attributes source.Attributes) string {
	text := ""
	if gateway.IsValid() {
		text = gateway.String()
	}
	text += fieldEnd + iface + fieldEnd + label
	if attributes != "" {
		text += fieldEnd + base64.RawStdEncoding.EncodeToString([]byte(attributes))
	}
	return text
}

// The object of a meaning, without an id.
func objectOf(meaning string) *planbv1.NextHop {
	fields := strings.Split(meaning, fieldEnd)
	object := &planbv1.NextHop{Interface: fields[1], Label: fields[2]}
	if fields[0] != "" {
		object.Gateway = netip.MustParseAddr(fields[0]).AsSlice()
	}
	if len(fields) > 3 {
		attributes, _ := base64.RawStdEncoding.DecodeString(fields[3])
		object.Attributes = source.Attributes(attributes).Decode()
	}
	return object
}

// The canonical form of members, which are changed.
func encode(members []member) string {
	if len(members) > 1 {
		slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.meaning, b.meaning) })
		merged := members[:1]
		for _, m := range members[1:] {
			if last := &merged[len(merged)-1]; last.meaning == m.meaning {
				last.weight = min(last.weight+m.weight, maxWeight)
			} else {
				merged = append(merged, m)
			}
		}
		members = merged[:min(len(merged), maxMembers)]
	}
	divisor := uint32(0)
	for _, m := range members {
		divisor = gcd(divisor, m.weight)
	}
	var text strings.Builder
	for i, m := range members {
		if i > 0 {
			text.WriteString(memberEnd)
		}
		text.WriteString(m.meaning)
		text.WriteString(fieldEnd)
		text.WriteString(strconv.FormatUint(uint64(m.weight/divisor), 10))
	}
	return text.String()
}

func decode(set string) []member {
	parts := strings.Split(set, memberEnd)
	members := make([]member, len(parts))
	for i, part := range parts {
		end := strings.LastIndex(part, fieldEnd)
		weight, _ := strconv.ParseUint(part[end+1:], 10, 32)
		members[i] = member{part[:end], uint32(weight)}
	}
	return members
}

func gcd(a, b uint32) uint32 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// The set of a route's paths; the zero set without any.
func canonical(paths []source.NextHop, firstID uint32) (pathSet, error) {
	if len(paths) == 0 {
		return pathSet{}, nil
	}
	members := make([]member, 0, 4)
	for _, path := range paths {
		if path.ID != 0 {
			if len(paths) > 1 {
				return pathSet{}, errors.New("a path with an id is not alone")
			}
			if path.ID >= firstID {
				return pathSet{}, fmt.Errorf("id %d is not below first_id, %d", path.ID, firstID)
			}
			return unique.Make(givenID + strconv.FormatUint(uint64(path.ID), 10)), nil
		}
		gateway, iface := path.Gateway, path.Interface
		if iface == "" {
			iface = gateway.Zone()
		}
		if gateway = gateway.WithZone(""); gateway.IsValid() && gateway.IsUnspecified() {
			gateway = netip.Addr{}
		}
		iface, label := bounded(iface, maxInterface), bounded(path.Label, maxLabel)
		if !gateway.IsValid() && iface == "" && label == "" {
			return pathSet{}, errors.New("a path has no gateway, interface or label")
		}
		weight := min(max(path.Weight, 1), maxWeight)
		members = append(members, member{meaningOf(gateway, iface, label, path.Attributes), weight})
	}
	return unique.Make(encode(members)), nil
}

// The text without control characters, in valid UTF-8 of at most `size` bytes.
func bounded(text string, size int) string {
	plain := true
	for i := range len(text) {
		plain = plain && text[i] >= ' ' && text[i] < 0x7f
	}
	if plain && len(text) <= size {
		return text
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > size {
		text = strings.ToValidUTF8(text[:size], "")
	}
	return text
}

// The key of a prefix that is one.
func keyOf(prefix netip.Prefix) (source.Key, error) {
	if !prefix.IsValid() || prefix != prefix.Masked() {
		return source.Key{}, fmt.Errorf("%s is no prefix, or has host bits set", prefix)
	}
	return source.KeyOf(prefix), nil
}

// Appends a change in the packed form of the contract.
func appendChange(k source.Key, v6, v4 []byte, op byte, id uint32) ([]byte, []byte) {
	if k[17] == 1 {
		v4 = append(append(v4, k[:4]...), k[16], op)
		return v6, binary.LittleEndian.AppendUint32(v4, id)
	}
	v6 = append(append(v6, k[:16]...), k[16], op)
	return binary.LittleEndian.AppendUint32(v6, id), v4
}
