package schema

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"

	"github.com/deployster-go/deployster/internal/phrase"
)

// maxPattern is the length of one regular expression in bytes. Reading a longer
// one could already take all memory, before its size is known.
const maxPattern = 64 << 10

// Patterns compiles the regular expressions of one document. Each is measured
// before it is compiled: repetitions multiply, and a few hundred characters can
// stand for gigabytes. It is safe for concurrent use.
type Patterns struct {
	most int // instructions of all of them together

	mu      sync.Mutex
	used    int
	known   map[string]*pattern
	refused error // the first refusal
	sealed  bool  // what comes now is of values, and is bounded one by one
}

// NewPatterns allows regular expressions of about so many instructions in all.
// One that is there several times counts once.
func NewPatterns(most int) *Patterns {
	return &Patterns{most: most, known: map[string]*pattern{}}
}

// pattern is a compiled regular expression of a schema: one of RE2 where that
// accepts the text, and otherwise one that may have to go back (see backtracking).
type pattern struct {
	text   string
	weight int // about how many instructions it has
	linear *regexp.Regexp
	back   *backtracking // when linear is nil
}

// String returns the regular expression as it is written.
func (p *pattern) String() string { return p.text }

// MatchString is what the library calls. It has no other way to learn that a
// match was given up than a panic, which Validate takes for a violation.
func (p *pattern) MatchString(text string) bool {
	ok, err := p.match(text)
	if err != nil {
		panic(err)
	}
	return ok
}

func (p *pattern) match(text string) (bool, error) {
	if p.linear != nil {
		return p.linear.MatchString(text), nil
	}
	return p.back.match(text)
}

// measure is how many steps it takes to match a text. A linear one takes at most
// its instructions for each character; of others it is only known afterwards.
func (p *pattern) measure(text string) (int, error) {
	if p.linear != nil {
		return stepsOfCompare + p.weight*len(text), nil
	}
	return p.back.measure(text)
}

// Compile compiles a regular expression in the syntax of RE2.
func (p *Patterns) Compile(text string) (*regexp.Regexp, error) {
	compiled, err := p.once(text, p.linear)
	if err != nil {
		return nil, err
	}
	return compiled.linear, nil
}

// compile compiles a regular expression of a schema, which may be in the syntax
// of ECMA-262 too.
func (p *Patterns) compile(text string) (*pattern, error) {
	return p.once(text, func(text string) (*pattern, error) {
		compiled, err := p.linear(text)
		if unsupported := (*unsupportedError)(nil); errors.As(err, &unsupported) {
			return p.backtracking(text)
		}
		return compiled, err
	})
}

// unsupportedError is about what is not in the syntax of RE2, but may be in another.
type unsupportedError struct{ text, why string }

func (e *unsupportedError) Error() string {
	return fmt.Sprintf("%s is not a regular expression of RE2: %s", excerpt(e.text), e.why)
}

// brokenPatternError is about what is no regular expression at all.
type brokenPatternError struct{ text, why string }

func (e *brokenPatternError) Error() string {
	return fmt.Sprintf("%s is not a regular expression of ECMA-262: %s", excerpt(e.text), e.why)
}

// once compiles a text that is not known yet, and remembers it.
func (p *Patterns) once(text string, compile func(string) (*pattern, error)) (*pattern, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.known[text]; known != nil {
		return known, nil
	}
	compiled, err := compile(text)
	if err != nil {
		if p.refused == nil {
			p.refused = err
		}
		return nil, err
	}
	if !p.sealed {
		p.used += compiled.weight
		p.known[text] = compiled
	}
	return compiled, nil
}

// seal says that the document has been read.
func (p *Patterns) seal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used, p.sealed = 0, true
}

func (p *Patterns) linear(text string) (*pattern, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("the regular expression %s has %d bytes, at most %d are possible", excerpt(text), len(text), maxPattern)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if broken := new(syntax.Error); errors.As(err, &broken) && broken.Code == syntax.ErrLarge {
		return nil, fmt.Errorf("the regular expression %s stands for more than %d instructions, which is the most that is possible: its repetitions multiply", excerpt(text), p.most)
	}
	if err != nil {
		return nil, &unsupportedError{text, excerptOfError(err)}
	}
	size := weight(parsed, p.most)
	if size > p.most {
		return nil, fmt.Errorf("the regular expression %s stands for more than %d instructions, which is the most that is possible: its repetitions multiply", excerpt(text), p.most)
	}
	if err := p.fits(text, size); err != nil {
		return nil, err
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, &unsupportedError{text, excerptOfError(err)}
	}
	return &pattern{text: text, weight: size, linear: compiled}, nil
}

// fits refuses a regular expression that is too much with those that are there.
func (p *Patterns) fits(text string, size int) error {
	if p.used+size > p.most {
		return fmt.Errorf("with %s the regular expressions stand for %d instructions together, at most %d are possible", excerpt(text), p.used+size, p.most)
	}
	return nil
}

// weight is about how many instructions a regular expression becomes, at most
// one more than most.
func weight(re *syntax.Regexp, most int) int {
	w := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		w = min(w+weight(sub, most), most+1)
	}
	if re.Op == syntax.OpRepeat {
		times := re.Max
		if times < 0 {
			times = re.Min + 1 // that often, and any more of it
		}
		w = min(w*max(1, times), most+1)
	}
	return w
}

// excerpt shows the beginning of a text that may be long.
func excerpt(text string) string { return fmt.Sprintf("%q", phrase.Cut(text, 40)) }

func excerptOfError(err error) string {
	return phrase.Cut(strings.TrimPrefix(err.Error(), "error parsing regexp: "), 100)
}
