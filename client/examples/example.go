// SPDX-License-Identifier: Apache-2.0

// Looks up packed addresses, eight batches in flight on one stream.
//
// Usage: example TARGET, with the table of test.sh: 2001:db8:KK00::/40 leads to
// next hop KK + 1.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net/netip"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "planb.example/planbv1"
)

const depth, batches, size = 8, 25, 4096

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(err)
	stream, err := pb.NewRouteLookupClient(conn).BatchLookup(context.Background())
	must(err)

	var packed []byte // 2001:db8::1, 2001:db8:100::1, ...
	for i := range size {
		address := netip.MustParseAddr("2001:db8::1").As16()
		address[4] = byte(i)
		packed = append(packed, address[:]...)
	}
	room := make(chan struct{}, depth)
	go func() {
		for id := range uint64(batches) {
			room <- struct{}{}
			must(stream.Send(&pb.BatchLookupRequest{RequestId: id, AddressesV6: packed}))
		}
		must(stream.CloseSend())
	}()

	answered := 0
	for {
		reply, err := stream.Recv()
		if err == io.EOF {
			break
		}
		must(err)
		<-room
		if reply.Error != nil || len(reply.NextHops) != 4*size {
			log.Fatal(reply)
		}
		for i := range size {
			hop := binary.LittleEndian.Uint32(reply.NextHops[4*i:])
			if want := uint32(i%256) + 1; hop != want {
				log.Fatalf("address %d: next hop %d instead of %d", i, hop, want)
			}
			answered++
		}
	}
	if answered != batches*size {
		log.Fatalf("%d answers instead of %d", answered, batches*size)
	}
	fmt.Println(answered, "next hops, as expected")
}
