package engine

import (
	"errors"
	"slices"
	"strings"
	"syscall"
)

// exhausted are the errors of a machine that has no more of something at the moment: room on its
// disk, open files, memory, processes; or whose disk fails.
var exhausted = []syscall.Errno{
	syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.EIO,
}

// Exhausted reports whether an error is that of a machine which lacks something at the moment,
// whatever else it is about: it is no fault of what was to be run. Engines and runtimes say so
// only in their texts.
func Exhausted(err error) bool { return err != nil && lacks(err, exhausted...) }

// Full reports whether an error is that of a disk that is full.
func Full(err error) bool { return err != nil && lacks(err, syscall.ENOSPC, syscall.EDQUOT) }

func lacks(err error, any ...syscall.Errno) bool {
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc(any, func(e syscall.Errno) bool {
		return errors.Is(err, e) || strings.Contains(text, strings.ToLower(e.Error()))
	})
}
