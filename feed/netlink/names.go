// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"fmt"
	"strconv"
	"time"

	nl "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// As iproute2 calls them in /etc/iproute2/rt_protos; zstatic is of FRR's staticd.
var protocols = map[string]uint8{
	"redirect": unix.RTPROT_REDIRECT, "kernel": unix.RTPROT_KERNEL, "boot": unix.RTPROT_BOOT,
	"static": unix.RTPROT_STATIC, "ra": unix.RTPROT_RA, "zebra": unix.RTPROT_ZEBRA,
	"bird": unix.RTPROT_BIRD, "dhcp": unix.RTPROT_DHCP, "babel": unix.RTPROT_BABEL,
	"bgp": unix.RTPROT_BGP, "isis": unix.RTPROT_ISIS, "ospf": unix.RTPROT_OSPF,
	"rip": unix.RTPROT_RIP, "eigrp": unix.RTPROT_EIGRP,
	"zstatic": 196,
}

// ParseProtocols reads names and numbers of routing protocols; nil for none.
func ParseProtocols(names []string) ([]uint8, error) {
	var result []uint8
	for _, name := range names {
		protocol, ok := protocols[name]
		if !ok {
			number, err := strconv.ParseUint(name, 10, 8)
			if err != nil {
				return nil, fmt.Errorf("protocol %q is neither a number up to 255 nor a name that is known", name)
			}
			protocol = uint8(number)
		}
		result = append(result, protocol)
	}
	return result, nil
}

// LinkNames asks the kernel for the names of interfaces, and remembers them. Not safe for
// concurrent use.
type LinkNames struct {
	namespace string
	names     map[uint32]string
	next      time.Time // no question before
}

// NewLinkNames asks in a namespace, as Dial names it.
func NewLinkNames(namespace string) *LinkNames { return &LinkNames{namespace: namespace} }

// Name returns "" for an interface that there is not. Answers are up to a minute old.
func (l *LinkNames) Name(index uint32) string {
	name, ok := l.names[index]
	if now := time.Now(); !ok && now.After(l.next) || now.After(l.next.Add(time.Minute)) {
		l.next = now.Add(time.Second)
		l.ask()
		name = l.names[index]
	}
	return name
}

func (l *LinkNames) ask() {
	connection, err := Dial(l.namespace, false)
	if err != nil {
		return
	}
	defer connection.Close()
	names := map[uint32]string{}
	err = Dump(connection, unix.RTM_GETLINK, make([]byte, unix.SizeofIfInfomsg), func(m nl.Message) {
		if link, err := Decode(m); err == nil {
			if link, ok := link.(*Link); ok {
				names[link.Index] = link.Name
			}
		}
	})
	if err == nil {
		l.names = names
	}
}
