// SPDX-License-Identifier: Apache-2.0

package planb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Error is a refusal of a call or of one batch: by the server, or by the client,
// which does not send addresses, prefixes and times that are not valid.
type Error struct {
	Code    codes.Code
	Reason  string   // for programs, such as "TABLE_NOT_FOUND"; may be empty
	Fields  []string // at fault, such as "changes[3].prefix"
	Message string   // for humans
	// Another attempt may pass after this time; 0 if the server does not say so.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	text := e.Code.String()
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	if len(e.Fields) > 0 && e.Fields[0] != "" {
		text += " " + strings.Join(e.Fields, ", ")
	}
	message := e.Message
	if len(e.Fields) == 1 {
		message = strings.TrimPrefix(message, e.Fields[0]+": ")
	}
	return fmt.Sprintf("planb: %s: %s", text, message)
}

// Is makes a call whose context ended match context.Canceled or
// context.DeadlineExceeded also where the server, which knows the deadline too,
// ends the call before the context does.
func (e *Error) Is(target error) bool {
	return e.Code == codes.Canceled && target == context.Canceled ||
		e.Code == codes.DeadlineExceeded && target == context.DeadlineExceeded
}

// Temporary tells whether another attempt may pass.
func (e *Error) Temporary() bool {
	return e.Code == codes.Unavailable || e.Code == codes.ResourceExhausted ||
		e.Code == codes.Aborted
}

// The refusal of a field that is not sent.
func invalid(reason, field, why string) error {
	return &Error{Code: codes.InvalidArgument, Reason: reason, Fields: []string{field}, Message: why}
}

// ReasonOf returns the reason of an *Error in err's chain; "" without one.
func ReasonOf(err error) string {
	var failure *Error
	if errors.As(err, &failure) {
		return failure.Reason
	}
	return ""
}

// The error of a call as an *Error; nil and errors without a status unchanged.
func fromStatus(err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	failure := &Error{Code: s.Code(), Message: s.Message()}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			failure.Reason = d.Reason
		case *errdetails.RetryInfo:
			failure.RetryAfter = d.RetryDelay.AsDuration()
		case *errdetails.BadRequest:
			for _, violation := range d.FieldViolations {
				failure.Fields = append(failure.Fields, violation.Field)
			}
		}
	}
	return failure
}
