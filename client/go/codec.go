// SPDX-License-Identifier: Apache-2.0

package planb

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"planb.dev/lookup/client/go/planbv1"
)

// Batch is one request of a stream. The answers are in this order: those to V6,
// to V4, to UpperHalves.
//
// The slices must not change until the result of the batch was received.
type Batch struct {
	V6          []byte // 16 bytes an address, network byte order
	V4          []byte // 4 bytes an address, network byte order
	UpperHalves []byte // 8 bytes an address: its upper half; see Undecided
	FlowHashes  []byte // nil, or 4 bytes for each address, little-endian
	Table       string // "" is the stream's table

	// The answer is from this generation or a later one. The server waits for
	// it at most MaxWait, in whole milliseconds, which is not negative.
	MinGeneration uint64
	MaxWait       time.Duration

	// Also return the length of each matched prefix.
	WantPrefixLengths bool

	// Answer once the table is complete: until then the batch, and those behind it, wait
	// as they do for a server that is away (WithPatience). WithRequireComplete asks for
	// it in all calls.
	RequireComplete bool
}

// Result is the answer to one batch.
type Result struct {
	Generation uint64
	NextHops   []uint32 // one for each address; 0: no route
	// One for each address, 255: no route. Nil unless asked for.
	PrefixLengths []byte
	// Why this batch failed, an *Error; the stream goes on.
	Err error
}

// Undecided is the answer for an upper half whose prefixes longer than /64
// lead to different next hops: ask again with the whole address.
const Undecided = 0xffffffff

// A request as its codec sees it: a batch with its id, which is not 0.
type request struct {
	id uint64
	Batch
}

// Whether each address of a batch that did not fail has its answers.
func (r *request) check(result *Result) error {
	count := len(r.V6)/16 + len(r.V4)/4 + len(r.UpperHalves)/8
	if result.Err == nil && (len(result.NextHops) != count ||
		r.WantPrefixLengths && len(result.PrefixLengths) != count) {
		return fmt.Errorf("planb: %d next hops and %d prefix lengths came for %d addresses",
			len(result.NextHops), len(result.PrefixLengths), count)
	}
	return nil
}

type reply struct {
	id     uint64
	result Result
}

// The large fields of BatchLookupRequest and BatchLookupResponse.
const (
	addressesV6 protowire.Number = 2
	addressesV4 protowire.Number = 3
	upperHalves protowire.Number = 8
	flowHashes  protowire.Number = 9

	nextHops protowire.Number = 3
)

// The codec of a lookup stream. The large fields of a request go to the transport
// where they are, and the next hops of a reply are copied once. protobuf writes and
// reads all else.
type batchCodec struct{}

func (batchCodec) Name() string { return "proto" }

func (batchCodec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(*request)
	if !ok {
		return nil, fmt.Errorf("planb: cannot marshal a %T", v)
	}
	header, err := proto.Marshal(&planbv1.BatchLookupRequest{
		RequestId:         r.id,
		Table:             r.Table,
		MinGeneration:     r.MinGeneration,
		MaxWaitMs:         uint32(min(r.MaxWait.Milliseconds(), math.MaxUint32)),
		WantPrefixLengths: r.WantPrefixLengths,
		RequireComplete:   r.RequireComplete,
	})
	if err != nil {
		return nil, err
	}
	message := mem.BufferSlice{mem.SliceBuffer(header)}
	bytes := func(field protowire.Number, value []byte) {
		if len(value) == 0 {
			return
		}
		tag := protowire.AppendTag(nil, field, protowire.BytesType)
		tag = protowire.AppendVarint(tag, uint64(len(value)))
		message = append(message, mem.SliceBuffer(tag), mem.SliceBuffer(value))
	}
	bytes(addressesV6, r.V6)
	bytes(addressesV4, r.V4)
	bytes(upperHalves, r.UpperHalves)
	bytes(flowHashes, r.FlowHashes)
	return message, nil
}

func (batchCodec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*reply)
	if !ok {
		return fmt.Errorf("planb: cannot unmarshal a %T", v)
	}
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	var hops, rest []byte
	for data := buffer.ReadOnlyData(); len(data) > 0; {
		field, kind, size := protowire.ConsumeField(data)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if field == nextHops && kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(data)
			hops, _ = protowire.ConsumeBytes(data[tag:])
		} else {
			rest = append(rest, data[:size]...)
		}
		data = data[size:]
	}
	var message planbv1.BatchLookupResponse
	if err := proto.Unmarshal(rest, &message); err != nil {
		return err
	}
	if len(hops)%4 != 0 {
		return fmt.Errorf("planb: a reply has %d bytes of next hops", len(hops))
	}
	*r = reply{message.RequestId, Result{
		Generation:    message.Generation,
		NextHops:      make([]uint32, len(hops)/4),
		PrefixLengths: message.PrefixLengths,
	}}
	for i := range r.result.NextHops {
		r.result.NextHops[i] = binary.LittleEndian.Uint32(hops[4*i:])
	}
	if e := message.Error; e != nil {
		failure := &Error{Code: codes.Code(e.Code), Reason: e.Reason, Message: e.Message}
		if e.Field != "" {
			failure.Fields = []string{e.Field}
		}
		r.result.Err = failure
	}
	return nil
}
