package record

import (
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
)

// The kinds of targets.
const (
	GroupKind = "group"
	JobKind   = "job"
)

// Entity is the name of the one thing that is controlled: all build groups of a log. So
// there is one dispatcher at a time, and the order of groups holds over all of them.
const Entity = "builds"

// Group is the target of a group.
func Group(id string) deploylog.Target { return deploylog.Target(GroupKind + "/" + id) }

// Job is the target of a job of a group.
func Job(id string, number int) deploylog.Target {
	var room [64]byte
	text := append(append(append(room[:0], JobKind+"/"...), id...), '/')
	return deploylog.Target(strconv.AppendInt(text, int64(number), 10))
}

// Parse returns the group of a target and, of that of a job, its number, which is 0 of that
// of a group. ok is false for all other targets.
func Parse(t deploylog.Target) (id string, number int, ok bool) {
	kind, rest, _ := strings.Cut(string(t), "/")
	switch kind {
	case GroupKind:
		return rest, 0, rest != ""
	case JobKind:
		i := strings.LastIndexByte(rest, '/')
		if i < 1 {
			return "", 0, false
		}
		n, err := strconv.Atoi(rest[i+1:])
		if err != nil || n < 1 || strconv.Itoa(n) != rest[i+1:] {
			return "", 0, false
		}
		return rest[:i], n, true
	default:
		return "", 0, false
	}
}

// NameOf is the entity whose events a target has.
func NameOf(t deploylog.Target) (string, bool) {
	_, _, ok := Parse(t)
	return Entity, ok
}
