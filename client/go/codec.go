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

// The fields of BatchLookupRequest, BatchLookupResponse and BatchError.
const (
	reqID            protowire.Number = 1
	reqV6            protowire.Number = 2
	reqV4            protowire.Number = 3
	reqTable         protowire.Number = 4
	reqMinGeneration protowire.Number = 5
	reqMaxWait       protowire.Number = 6
	reqWantLengths   protowire.Number = 7
	reqUpperHalves   protowire.Number = 8
	reqFlowHashes    protowire.Number = 9

	respID         protowire.Number = 1
	respGeneration protowire.Number = 2
	respNextHops   protowire.Number = 3
	respLengths    protowire.Number = 4
	respError      protowire.Number = 5

	errCode    protowire.Number = 1
	errReason  protowire.Number = 2
	errField   protowire.Number = 3
	errMessage protowire.Number = 4
)

// A request as its codec sees it: a batch with its id, which is not 0.
type request struct {
	id uint64
	Batch
}

type reply struct {
	id     uint64
	result Result
}

// The codec of a lookup stream. The large fields of a request go to the
// transport where they are, and those of a reply are copied once.
type batchCodec struct{}

func (batchCodec) Name() string { return "proto" }

func (batchCodec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(*request)
	if !ok {
		return nil, fmt.Errorf("planb: cannot marshal a %T", v)
	}
	header := make([]byte, 0, 64+len(r.Table))
	number := func(field protowire.Number, value uint64) {
		if value != 0 {
			header = protowire.AppendTag(header, field, protowire.VarintType)
			header = protowire.AppendVarint(header, value)
		}
	}
	number(reqID, r.id)
	if r.Table != "" {
		header = protowire.AppendTag(header, reqTable, protowire.BytesType)
		header = protowire.AppendString(header, r.Table)
	}
	number(reqMinGeneration, r.MinGeneration)
	number(reqMaxWait, uint64(min(r.MaxWait.Milliseconds(), math.MaxUint32)))
	if r.WantPrefixLengths {
		number(reqWantLengths, 1)
	}
	message := mem.BufferSlice{nil}
	bytes := func(field protowire.Number, value []byte) {
		if len(value) == 0 {
			return
		}
		tag := protowire.AppendTag(nil, field, protowire.BytesType)
		tag = protowire.AppendVarint(tag, uint64(len(value)))
		message = append(message, mem.SliceBuffer(tag), mem.SliceBuffer(value))
	}
	bytes(reqV6, r.V6)
	bytes(reqV4, r.V4)
	bytes(reqUpperHalves, r.UpperHalves)
	bytes(reqFlowHashes, r.FlowHashes)
	message[0] = mem.SliceBuffer(header)
	return message, nil
}

func (batchCodec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*reply)
	if !ok {
		return fmt.Errorf("planb: cannot unmarshal a %T", v)
	}
	*r = reply{}
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	var hops []byte
	var failure *Error
	// A field of another type than ours is unknown, and the last one of several
	// counts. Those of an error are one, whose fields count in this way.
	err := fields(buffer.ReadOnlyData(), func(field protowire.Number, number uint64, bytes []byte) error {
		switch {
		case field == respID && bytes == nil:
			r.id = number
		case field == respGeneration && bytes == nil:
			r.result.Generation = number
		case field == respNextHops && bytes != nil:
			hops = bytes
		case field == respLengths && bytes != nil:
			r.result.PrefixLengths = append([]byte(nil), bytes...)
		case field == respError && bytes != nil:
			if failure == nil {
				failure = &Error{}
			}
			return failure.read(bytes)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if failure != nil {
		r.result.Err = failure
	}
	if len(hops)%4 != 0 {
		return fmt.Errorf("planb: a reply has %d bytes of next hops", len(hops))
	}
	if hops != nil {
		r.result.NextHops = make([]uint32, len(hops)/4)
	}
	for i := range r.result.NextHops {
		r.result.NextHops[i] = binary.LittleEndian.Uint32(hops[4*i:])
	}
	return nil
}

// Reads fields of a BatchError.
func (e *Error) read(message []byte) error {
	return fields(message, func(field protowire.Number, number uint64, bytes []byte) error {
		switch {
		case field == errCode && bytes == nil:
			e.Code = codes.Code(uint32(number))
		case field == errReason && bytes != nil:
			e.Reason = string(bytes)
		case field == errField && bytes != nil:
			e.Fields = []string{string(bytes)}
		case field == errMessage && bytes != nil:
			e.Message = string(bytes)
		}
		return nil
	})
}

// Calls `field` for each field of a message: with the value of a varint and nil, or
// with the bytes of a string, bytes or message. Skips fields of other types.
func fields(message []byte, field func(protowire.Number, uint64, []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if !number.IsValid() {
			return fmt.Errorf("planb: there is no field %d", number)
		}
		message = message[n:]
		var value uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if kind == protowire.VarintType || kind == protowire.BytesType {
			if err := field(number, value, bytes); err != nil {
				return err
			}
		}
	}
	return nil
}
