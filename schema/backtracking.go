package schema

import (
	"fmt"
	"time"

	"github.com/dlclark/regexp2/v2"
)

// The bounds of matching a regular expression that goes back: a short one can
// take longer than anybody lives.
const (
	maxMatch       = time.Second // of one text
	maxMatched     = 64 << 10    // bytes of a text
	maxBacktracked = 1 << 20     // places to go back to
	timeOfStep     = 5 * time.Nanosecond
)

// backtracking is a regular expression of ECMA-262 with what RE2 does not have:
// looking ahead and behind, references to groups, more than 1,000 repetitions.
// How long a match takes cannot be told beforehand, so it is measured and given
// up when it takes too long.
type backtracking struct {
	text     string
	compiled *regexp2.Regexp
}

// backtracking compiles a regular expression that RE2 does not accept. Its size is
// that of its text, as repetitions are counted and not multiplied out.
func (p *Patterns) backtracking(text string) (*pattern, error) {
	if err := p.fits(text, len(text)); err != nil {
		return nil, err
	}
	limit := regexp2.OptionMaxBacktrackingStackSize(maxBacktracked)
	compiled, err := regexp2.Compile(text, regexp2.ECMAScript|regexp2.Unicode, limit)
	if err != nil { // some forms are only possible without the flag u, such as [\w-.]
		compiled, err = regexp2.Compile(text, regexp2.ECMAScript, limit)
	}
	if err != nil {
		return nil, &brokenPatternError{text, excerptOfError(err)}
	}
	compiled.MatchTimeout = maxMatch
	return &pattern{text: text, weight: len(text), back: &backtracking{text, compiled}}, nil
}

func (b *backtracking) match(text string) (bool, error) {
	if len(text) > maxMatched {
		return false, fmt.Errorf("a text of %d bytes is too long for the regular expression %s, which may have to go back: at most %d are possible", len(text), excerpt(b.text), maxMatched)
	}
	ok, err := b.compiled.MatchString(text)
	if err != nil { // the library's error shows the text, which may be a secret
		return false, fmt.Errorf("the regular expression %s takes too long: it goes back again and again", excerpt(b.text))
	}
	return ok, nil
}

// measure matches a text and says how many steps that took.
func (b *backtracking) measure(text string) (int, error) {
	begun := time.Now()
	_, err := b.match(text)
	return stepsOfCompare + int(time.Since(begun)/timeOfStep), err
}
