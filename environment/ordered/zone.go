package ordered

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Zones counts hosts by the zone that they are in, as far as there is something to be done on
// them. The zero Zones has none.
type Zones struct {
	open     map[string]int // by zone
	excepted map[string]int // those that have had their chance
}

// Count adds hosts to a zone, or removes them where by is negative. Those that are excepted
// have had their chance.
func (z *Zones) Count(zone string, excepted bool, by int) {
	of := &z.open
	if excepted {
		of = &z.excepted
	}
	if *of == nil {
		*of = map[string]int{}
	}
	if (*of)[zone] += by; (*of)[zone] == 0 {
		delete(*of, zone)
	}
}

// Clear removes all hosts.
func (z *Zones) Clear() {
	clear(z.open)
	clear(z.excepted)
}

// First is the first zone that has hosts, with those that are excepted or without; ok is
// false when none has.
func (z *Zones) First(excepted bool) (zone string, ok bool) {
	zones := slices.Collect(maps.Keys(z.open))
	if excepted {
		zones = slices.AppendSeq(zones, maps.Keys(z.excepted))
	}
	if len(zones) == 0 {
		return "", false
	}
	return slices.MinFunc(zones, Compare), true
}

// Compare orders zones as people do: zone-2 is before zone-10. "" is of the hosts that
// have no zone, which come last.
func Compare(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == "":
		return 1
	case b == "":
		return -1
	}
	x, y := a, b
	for x != "" && y != "" {
		m, n := digits(x), digits(y)
		if m == 0 || n == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		p, q := strings.TrimLeft(x[:m], "0"), strings.TrimLeft(y[:n], "0")
		if c := cmp.Or(cmp.Compare(len(p), len(q)), cmp.Compare(p, q)); c != 0 {
			return c
		}
		x, y = x[m:], y[n:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// digits is how many digits a text begins with.
func digits(text string) int { return len(text) - len(strings.TrimLeft(text, "0123456789")) }
