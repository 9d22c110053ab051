package engine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/deployster-go/deployster/engine"
)

func TestWhatAMachineLacksIsKnownByErrorsAndTexts(t *testing.T) {
	for _, c := range []struct {
		err             error
		exhausted, full bool
	}{
		{nil, false, false},
		{errors.New("no such file or directory"), false, false},
		{fmt.Errorf("make it: %w", &fs.PathError{Op: "mkdir", Path: "/x", Err: syscall.ENOSPC}), true, true},
		{&engine.SpecError{Cause: errors.New(`exec: "/job": mkdir /var/lib/docker/x: No space left on device: unknown`)}, true, true},
		{errors.New("write /x: disk quota exceeded"), true, true},
		{errors.New("open /x: too many open files"), true, false},
		{errors.New("open /x: too many open files in system"), true, false},
		{errors.New("fork/exec runc: Resource temporarily unavailable"), true, false},
		{errors.New("runc: cannot allocate memory"), true, false},
		{fmt.Errorf("start it: %w", syscall.EIO), true, false},
	} {
		if exhausted, full := engine.Exhausted(c.err), engine.Full(c.err); exhausted != c.exhausted || full != c.full {
			t.Errorf("%v: exhausted %v, full %v", c.err, exhausted, full)
		}
	}
}
