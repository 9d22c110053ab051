// Package query answers questions about the deployment log: what of a target came
// last, which runs there were and how they ended, who caused an event, which names
// there are, how pipelines and environments stand, and why something has no end.
//
// Pipelines and Environments are folded from the log and follow it; any other answer is
// folded whenever it is asked for. It is a value, and a document where it has JSON tags:
// the command line prints it, and a server sends it. So nothing here prints or reads
// flags; what people read is written by package view.
package query

import (
	"errors"
	"fmt"
)

// ErrNotFound is wrapped where what is asked for is not in the log.
var ErrNotFound = errors.New("not in the log")

// unknown returns an error that wraps ErrNotFound, and says what to do in its place.
func unknown(format string, args ...any) error { return notFound(fmt.Sprintf(format, args...)) }

type notFound string

// Error says what is not there, and what to do.
func (e notFound) Error() string { return string(e) }

// Unwrap returns ErrNotFound.
func (notFound) Unwrap() error { return ErrNotFound }
