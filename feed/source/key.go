// SPDX-License-Identifier: Apache-2.0

package source

import "net/netip"

// Key is a prefix without pointers: the address from the left, the length, and whether it
// is IPv4.
type Key [18]byte

// KeyOf is the key of a valid prefix.
func KeyOf(prefix netip.Prefix) Key {
	k := Key{16: byte(prefix.Bits())}
	copy(k[:16], prefix.Addr().AsSlice())
	if prefix.Addr().Is4() {
		k[17] = 1
	}
	return k
}

// Prefix is what the key is of.
func (k Key) Prefix() netip.Prefix {
	address := netip.AddrFrom16([16]byte(k[:16]))
	if k[17] == 1 {
		address = netip.AddrFrom4([4]byte(k[:4]))
	}
	return netip.PrefixFrom(address, int(k[16]))
}
