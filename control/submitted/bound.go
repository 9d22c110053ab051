package submitted

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// The bounds of what the body of a group comes to. "1-1000000" are few bytes, and many numbers.
const (
	maxJobs  = 400_000
	maxUses  = 2_000_000
	maxWaits = 4_000_000
)

// Bound refuses the body of a group that would take more memory than a body of its size may. What
// else is wrong with it is found when it is decoded.
func Bound(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil //nolint:nilerr // it is no group
	}
	var total size
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		name, _ := key.(string)
		if !strings.EqualFold(name, "jobs") { // as decoders find fields
			var other skipped
			err = d.Decode(&other)
		} else {
			err = total.add(d)
		}
		var large *InvalidError
		if errors.As(err, &large) {
			return err
		}
		if err != nil {
			return nil //nolint:nilerr // as above
		}
	}
	return nil
}

// skipped is any value, of which nothing is kept.
type skipped struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*skipped) UnmarshalJSON([]byte) error { return nil }

// size is how much the jobs of a body come to.
type size struct{ jobs, uses, waits int }

// add adds the jobs of a list.
func (s *size) add(d *json.Decoder) error {
	t, err := d.Token()
	if err != nil || t != json.Delim('[') {
		return err // null, or what no list is
	}
	for d.More() {
		var job struct {
			Uses  []skipped `json:"uses"`
			Waits span      `json:"waits"`
		}
		if err := d.Decode(&job); err != nil {
			return err
		}
		s.jobs, s.uses, s.waits = s.jobs+1, s.uses+len(job.Uses), s.waits+int(job.Waits)
		if s.jobs > maxJobs || s.uses > maxUses || s.waits > maxWaits {
			return invalid("it is too large to be sent: at most %d jobs are possible, which use %d others, and wait for %d; submit it where the log is", maxJobs, maxUses, maxWaits)
		}
	}
	_, err = d.Token()
	return err
}

// span is how many numbers there are in texts of record.Numbers.
type span int

// UnmarshalText implements encoding.TextUnmarshaler. A text that comes twice counts twice, as it
// is decoded twice.
func (s *span) UnmarshalText(text []byte) error {
	for part := range bytes.SplitSeq(text, []byte{','}) {
		first, last, is := strings.Cut(string(part), "-")
		*s++
		if !is {
			continue
		}
		from, err := strconv.Atoi(first)
		to, failed := strconv.Atoi(last)
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		if to > from && from >= 0 {
			*s += span(min(to-from, maxWaits+1))
		}
	}
	return nil
}

// BoundCarried refuses the document of a group that a revision carries where Bound would refuse the
// group.
func BoundCarried(text []byte) error {
	var all struct {
		Submit bounded `json:"submit"`
	}
	err := json.Unmarshal(text, &all)
	if large, is := errors.AsType[*InvalidError](err); is {
		return large
	}
	return nil // what else is wrong is found when it is decoded
}

// bounded is a group of which nothing is kept. One that comes twice is looked at twice.
type bounded struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*bounded) UnmarshalJSON(body []byte) error { return Bound(body) }
