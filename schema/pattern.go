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

// pattern is a compiled regular expression and about how many instructions it
// has: matching takes at most that many steps for each character.
type pattern struct {
	*regexp.Regexp
	weight int
}

// Compile compiles a regular expression in the syntax of RE2.
func (p *Patterns) Compile(text string) (*regexp.Regexp, error) {
	compiled, err := p.compile(text)
	if err != nil {
		return nil, err
	}
	return compiled.Regexp, nil
}

func (p *Patterns) compile(text string) (*pattern, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.known[text]; known != nil {
		return known, nil
	}
	compiled, err := p.measured(text)
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

func (p *Patterns) measured(text string) (*pattern, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("the regular expression %s has %d bytes, at most %d are possible", excerpt(text), len(text), maxPattern)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if broken := new(syntax.Error); errors.As(err, &broken) && broken.Code == syntax.ErrLarge {
		return nil, fmt.Errorf("the regular expression %s stands for more than %d instructions, which is the most that is possible: its repetitions multiply", excerpt(text), p.most)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not a regular expression of RE2: %s", excerpt(text), excerptOfError(err))
	}
	size := weight(parsed, p.most)
	switch {
	case size > p.most:
		return nil, fmt.Errorf("the regular expression %s stands for more than %d instructions, which is the most that is possible: its repetitions multiply", excerpt(text), p.most)
	case p.used+size > p.most:
		return nil, fmt.Errorf("with %s the regular expressions stand for %d instructions together, at most %d are possible", excerpt(text), p.used+size, p.most)
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("%s is not a regular expression of RE2: %s", excerpt(text), excerptOfError(err))
	}
	return &pattern{compiled, size}, nil
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
