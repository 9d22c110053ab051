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

// Targets are those of the jobs of a group. They are parts of one text: a group may have
// many jobs, and most of them several events.
type Targets struct {
	id   string
	text string
	ends []int32
}

// maxTargets is how long that text may be; where it would be longer each target is its own.
const maxTargets = 64 << 20

// TargetsOf are the targets of so many jobs of a group.
func TargetsOf(id string, count int) Targets {
	longest := len(JobKind+"//") + len(id) + len(strconv.Itoa(count))
	if count*longest > maxTargets {
		return Targets{id: id}
	}
	text, ends := make([]byte, 0, count*longest), make([]int32, count)
	for i := range ends {
		text = append(append(append(text, JobKind+"/"...), id...), '/')
		text = strconv.AppendInt(text, int64(i+1), 10)
		ends[i] = int32(len(text))
	}
	return Targets{id, string(text), ends}
}

// Job is the target of a job by its number.
func (t *Targets) Job(number int) deploylog.Target {
	if number > len(t.ends) {
		return Job(t.id, number)
	}
	from := int32(0)
	if number > 1 {
		from = t.ends[number-2]
	}
	return deploylog.Target(t.text[from:t.ends[number-1]])
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
		n, ok := positive(rest[i+1:])
		return rest[:i], n, ok
	default:
		return "", 0, false
	}
}

// positive is a number that is written as numbers of jobs are: with digits alone, of which
// the first is not 0.
func positive[T string | []byte](text T) (n int, ok bool) {
	if len(text) == 0 || len(text) > maxDigits || text[0] == '0' {
		return 0, false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		n = 10*n + int(text[i]-'0')
	}
	return n, true
}

// NameOf is the entity whose events a target has.
func NameOf(t deploylog.Target) (string, bool) {
	_, _, ok := Parse(t)
	return Entity, ok
}
