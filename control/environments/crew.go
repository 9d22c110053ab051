package environments

import "slices"

// crew is who does the work of environments' steps: so many hands, and on each
// host so many as it has slots, one of them for the same environment. Whoever
// finds no room waits for it in line.
type crew struct {
	hands   int // free ones
	slots   func(host string) int
	working map[workplace]bool
	busy    map[string]int // steps that are worked on, by host
	of      map[string]int // and by environment

	line    []string // environments that wait for a hand
	inLine  map[string]bool
	lines   map[string][]string // that wait for a slot, by host
	inLines map[workplace]bool
	freed   map[string]bool // hosts with a line on which there may be a slot
}

// workplace is an environment on a host.
type workplace struct{ environment, host string }

func newCrew(hands int, slots func(string) int) crew {
	return crew{
		hands: hands, slots: slots, working: map[workplace]bool{}, busy: map[string]int{}, of: map[string]int{},
		inLine: map[string]bool{}, lines: map[string][]string{}, inLines: map[workplace]bool{}, freed: map[string]bool{},
	}
}

// can tells whether work may begin. Who has to wait for that is in line then.
func (c *crew) can(at workplace) bool {
	switch {
	case c.working[at]:
		return false
	case c.hands == 0:
		if !c.inLine[at.environment] {
			c.inLine[at.environment] = true
			c.line = append(c.line, at.environment)
		}
		return false
	case c.busy[at.host] >= c.slots(at.host):
		if !c.inLines[at] {
			c.inLines[at] = true
			c.lines[at.host] = append(c.lines[at.host], at.environment)
		}
		return false
	}
	return true
}

func (c *crew) begin(at workplace) {
	c.working[at] = true
	c.busy[at.host]++
	c.of[at.environment]++
	c.hands--
}

func (c *crew) end(at workplace) {
	delete(c.working, at)
	if c.busy[at.host]--; c.busy[at.host] <= 0 {
		delete(c.busy, at.host)
	}
	if c.of[at.environment]--; c.of[at.environment] <= 0 {
		delete(c.of, at.environment)
	}
	c.hands++
	if len(c.lines[at.host]) > 0 {
		c.freed[at.host] = true
	}
}

// room tells whether there may be room for somebody in the lines.
func (c *crew) room() bool { return c.hands > 0 && len(c.line)+len(c.freed) > 0 }

// next takes those out of the lines for whom there may be room now: not more than
// there is room for, so that a long line does not cost more at each end of work.
func (c *crew) next() (names []string) {
	if c.hands == 0 {
		return nil
	}
	n := min(c.hands, len(c.line))
	names, c.line = slices.Clone(c.line[:n]), c.line[n:]
	for _, name := range names {
		delete(c.inLine, name)
	}
	for host := range c.freed {
		line := c.lines[host]
		n := min(c.slots(host)-c.busy[host], len(line))
		if n <= 0 {
			delete(c.freed, host)
			continue
		}
		for _, name := range line[:n] {
			delete(c.inLines, workplace{name, host})
			names = append(names, name)
		}
		if c.lines[host] = line[n:]; n == len(line) {
			delete(c.lines, host)
			delete(c.freed, host)
		}
	}
	return names
}

// look lets those that wait for slots see whether there are others now.
func (c *crew) look() {
	for host := range c.lines {
		c.freed[host] = true
	}
}

// roll is names, each once, in the order in which they came.
type roll struct {
	names []string
	in    map[string]bool
}

func (r *roll) add(names ...string) {
	if r.in == nil {
		r.in = map[string]bool{}
	}
	for _, name := range names {
		if !r.in[name] {
			r.in[name] = true
			r.names = append(r.names, name)
		}
	}
}

// pop takes the first name.
func (r *roll) pop() (name string) {
	name, r.names = r.names[0], r.names[1:]
	delete(r.in, name)
	return name
}

// take empties the roll.
func (r *roll) take() (names []string) {
	names, r.names = r.names, nil
	clear(r.in)
	return names
}
