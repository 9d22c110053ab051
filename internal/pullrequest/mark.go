package pullrequest

import "strings"

// What is made here is known again by a line that it has: a commit in its message, which nobody
// edits, and a pull request in its text, where people do. One that lost it there has it in its
// commits.
const (
	proposalMark = "Deployster-Promotion: "

	// withdrawalMark takes its place in a pull request that is closed here: that nobody declines.
	withdrawalMark = "Deployster-Withdrawn: "
)

// mark says what something was made for, and by whom. The zero value is that it was not made
// here.
type mark struct {
	key       string // of the promotion
	owner     string // see Place.Owner; "" is not known
	withdrawn bool
}

// markOf is the mark that a text has.
func markOf(text string) (m mark) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		rest, is := strings.CutPrefix(line, proposalMark)
		if !is {
			if rest, m.withdrawn = strings.CutPrefix(line, withdrawalMark); !m.withdrawn {
				continue
			}
		}
		m.key, rest, _ = strings.Cut(rest, " ")
		m.owner = strings.TrimSuffix(strings.TrimPrefix(rest, "("), ")")
		return m
	}
	return m
}

// made reports whether what has the mark was made here, by whomever.
func (m mark) made() bool { return m.key != "" }

// by reports whether what has the mark was made by an owner.
func (m mark) by(owner string) bool { return m.made() && (m.owner == owner || m.owner == "") }

// of reports whether what has the mark proposes a promotion.
func (m mark) of(key string) bool { return m.key == key && !m.withdrawn }

// line is the mark as a line of a text.
func (m mark) line() string {
	prefix := proposalMark
	if m.withdrawn {
		prefix = withdrawalMark
	}
	if m.owner == "" {
		return prefix + m.key
	}
	return prefix + m.key + " (" + m.owner + ")"
}

// withdrawn is the text of a pull request with a mark that is closed here.
func withdrawn(text string, m mark) string {
	m.withdrawn = true
	if !markOf(text).made() {
		return strings.TrimRight(text, "\r\n ") + "\n\n" + m.line() + "\n"
	}
	return strings.ReplaceAll(text, proposalMark, withdrawalMark)
}
