// SPDX-License-Identifier: Apache-2.0

package planb_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"os"
	"time"

	planb "planb.dev/lookup/client/go"
)

// PLANB_SERVER is the address of a server, such as that of `make run`.
func Example() {
	client, err := planb.Dial(os.Getenv("PLANB_SERVER"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := client.Announce(ctx, map[netip.Prefix]uint32{
		netip.MustParsePrefix("2001:db8::/32"): 7,
	}); err != nil {
		log.Fatal(err)
	}
	nextHops, err := client.Lookup(ctx, []netip.Addr{
		netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("192.0.2.1"),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(nextHops)
	// Output: [7 0]
}
