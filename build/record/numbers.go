package record

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// Numbers are numbers of jobs, ascending. They are written as "1-500,502".
type Numbers []int

// maxNumber is the greatest number of a job.
const maxNumber = 1_000_000

// MarshalText implements encoding.TextMarshaler.
func (n Numbers) MarshalText() ([]byte, error) { return n.append(nil), nil }

func (n Numbers) append(out []byte) []byte {
	for i := 0; i < len(n); {
		last := i
		for last+1 < len(n) && n[last+1] == n[last]+1 {
			last++
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, int64(n[i]), 10)
		if last > i {
			out = strconv.AppendInt(append(out, '-'), int64(n[last]), 10)
		}
		i = last + 1
	}
	return out
}

// UnmarshalText implements encoding.TextUnmarshaler. It fails unless the numbers ascend
// from 1 and there are not more than jobs can be.
func (n *Numbers) UnmarshalText(text []byte) error {
	all, err := appendNumbers(nil, text)
	if err != nil {
		return err
	}
	*n = all
	return nil
}

// appendNumbers adds the numbers of a text.
func appendNumbers(all Numbers, text []byte) (Numbers, error) {
	for last := 0; len(text) > 0; {
		part, rest, more := bytes.Cut(text, []byte{','})
		from, to, isRange := bytes.Cut(part, []byte{'-'})
		first, err := number(from)
		end := first
		if err == nil && isRange {
			end, err = number(to)
		}
		if err != nil {
			return nil, err
		}
		if first <= last || end < first {
			return nil, fmt.Errorf("the numbers of jobs do not ascend at %.40q", part)
		}
		for last = first; last <= end; last++ {
			all = append(all, last)
		}
		if last = end; more && len(rest) == 0 {
			return nil, errors.New("the numbers of jobs end with a comma")
		}
		text = rest
	}
	return all, nil
}

func number(text []byte) (int, error) {
	n, ok := positive(text)
	if !ok || n > maxNumber {
		return 0, fmt.Errorf("%.40q is not the number of a job", text)
	}
	return n, nil
}
