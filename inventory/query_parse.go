package inventory

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/deployster-go/deployster/internal/suggest"
)

// The bounds of a query.
const (
	maxQuery       = 4096   // bytes
	maxQueryDepth  = 100    // parentheses and nots within each other
	maxQueryWeight = 50_000 // of its regular expressions, see weight
)

var (
	keywords  = []string{"and", "or", "not", "in", "not_in", "exists", "not_exists"}
	operators = []string{"==", "!=", "=~", "in", "not_in", "exists", "not_exists"}
	// mistaken is what is probably meant by what other languages write.
	mistaken = map[string]string{
		"=": "==", "===": "==", "<>": "!=", "!==": "!=", "~": "=~", "~=": "=~", "==~": "=~",
		"&&": "and", "&": "and", "||": "or", "|": "or", "!": "not", "[": "(", "]": ")", "{": "(", "}": ")",
	}
)

// CheckQuery reports what is wrong with a query.
func CheckQuery(text string) error {
	_, err := ParseQuery(text)
	return err
}

// ParseQuery reads a query. It fails with a *QueryError.
func ParseQuery(text string) (Query, error) {
	p := &queryParser{}
	switch {
	case len(text) > maxQuery:
		return Query{}, &QueryError{Column: 1, Message: fmt.Sprintf("the query has %d bytes; at most %d are possible", len(text), maxQuery)}
	case !utf8.ValidString(text):
		return Query{}, &QueryError{Column: 1, Message: "the query is not valid UTF-8"}
	}
	p.text = []rune(text)
	if err := p.next(); err != nil {
		return Query{}, err
	}
	if p.kind == atEnd {
		return Query{}, &QueryError{Column: 1, Message: "the query is empty; name exists selects every host"}
	}
	root, err := p.or(0)
	if err != nil {
		return Query{}, err
	}
	if p.kind != atEnd {
		return Query{}, p.trailing()
	}
	return Query{root}, nil
}

// queryParser is at one token of the query: kind, token and column.
type queryParser struct {
	text   []rune
	after  int // where the token ends
	kind   tokenKind
	token  string // without quotes
	column int
	weight int // of the regular expressions so far
}

type tokenKind int

const (
	atEnd    tokenKind = iota
	atWord             // letters, digits and such
	atQuoted           // a text in quotes
	atSymbol           // ( ) , or an operator
)

func isPlain(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-/:@+", r)
}

func isOperator(r rune) bool { return strings.ContainsRune("=!~<>&|", r) }

// next goes to the next token.
func (p *queryParser) next() error {
	i := p.after
	for i < len(p.text) && unicode.IsSpace(p.text[i]) {
		i++
	}
	p.column = i + 1
	run := func(belongs func(rune) bool) int {
		end := i
		for end < len(p.text) && belongs(p.text[end]) {
			end++
		}
		return end
	}
	switch {
	case i == len(p.text):
		p.kind, p.after = atEnd, i
	case p.text[i] == '"' || p.text[i] == '\'':
		return p.quoted(i)
	case isPlain(p.text[i]):
		p.kind, p.after = atWord, run(isPlain)
	case isOperator(p.text[i]):
		p.kind, p.after = atSymbol, run(isOperator)
	case strings.ContainsRune("(),[]{}", p.text[i]):
		p.kind, p.after = atSymbol, i+1
	default:
		return p.fail("%q is only possible within quotes", p.text[i])
	}
	p.token = string(p.text[i:p.after])
	if meant := mistaken[p.token]; p.kind == atSymbol && meant != "" {
		return &QueryError{Column: p.column, Message: fmt.Sprintf("there is no %s in queries", p.token), Hint: meant}
	}
	return nil
}

// quoted reads a text in quotes. A backslash takes the meaning from a quote and
// from a backslash; before anything else it is itself, so that regular
// expressions look as usual.
func (p *queryParser) quoted(i int) error {
	var b strings.Builder
	mark := p.text[i]
	for j := i + 1; j < len(p.text); j++ {
		r := p.text[j]
		switch {
		case r == mark:
			p.kind, p.token, p.after = atQuoted, b.String(), j+1
			return nil
		case unicode.IsControl(r):
			p.column = j + 1
			return p.fail("a control character is not possible in a value")
		case r == '\\' && j+1 < len(p.text) && (p.text[j+1] == mark || p.text[j+1] == '\\'):
			j++
			r = p.text[j]
		}
		b.WriteRune(r)
	}
	return p.fail("this quote is never closed")
}

func (p *queryParser) fail(format string, args ...any) error {
	return &QueryError{Column: p.column, Message: fmt.Sprintf(format, args...)}
}

// found is the token, for messages.
func (p *queryParser) found() string {
	switch p.kind {
	case atEnd:
		return "the end"
	case atQuoted:
		return "a text in quotes"
	default:
		return fmt.Sprintf("%.40q", p.token)
	}
}

func (p *queryParser) is(kind tokenKind, token string) bool {
	return p.kind == kind && p.token == token
}

// trailing is about what follows a complete query.
func (p *queryParser) trailing() error {
	if p.is(atSymbol, ")") {
		return p.fail("there is no ( for this )")
	}
	err := &QueryError{Column: p.column, Message: fmt.Sprintf("expected and, or or the end, not %s", p.found())}
	if p.kind == atWord {
		err.Hint = suggest.Closest(p.token, []string{"and", "or"})
	}
	return err
}

func (p *queryParser) or(depth int) (expr, error) {
	parts, err := p.joined("or", depth, p.and)
	if len(parts) == 1 {
		return parts[0], err
	}
	return anyOf(parts), err
}

func (p *queryParser) and(depth int) (expr, error) {
	parts, err := p.joined("and", depth, p.not)
	if len(parts) == 1 {
		return parts[0], err
	}
	return allOf(parts), err
}

// joined reads what a word joins. Parts in parentheses that are joined by the
// same word are made parts of this.
func (p *queryParser) joined(word string, depth int, part func(int) (expr, error)) ([]expr, error) {
	var parts []expr
	for {
		e, err := part(depth)
		if err != nil {
			return nil, err
		}
		any, isAny := e.(anyOf)
		all, isAll := e.(allOf)
		switch {
		case isAny && word == "or":
			parts = append(parts, any...)
		case isAll && word == "and":
			parts = append(parts, all...)
		default:
			parts = append(parts, e)
		}
		if !p.is(atWord, word) {
			return parts, nil
		}
		if err := p.next(); err != nil {
			return nil, err
		}
	}
}

func (p *queryParser) not(depth int) (expr, error) {
	if depth >= maxQueryDepth {
		return nil, p.fail("nested deeper than %d levels", maxQueryDepth)
	}
	switch {
	case p.is(atWord, "not"):
		if err := p.next(); err != nil {
			return nil, err
		}
		e, err := p.not(depth + 1)
		return not{e}, err
	case p.is(atSymbol, "("):
		opened := p.column
		if err := p.next(); err != nil {
			return nil, err
		}
		e, err := p.or(depth + 1)
		if err != nil {
			return nil, err
		}
		if !p.is(atSymbol, ")") {
			return nil, p.fail("expected and, or or a ) for the ( at character %d, not %s", opened, p.found())
		}
		return e, p.next()
	default:
		return p.test()
	}
}

func (p *queryParser) test() (expr, error) {
	t := test{subject: p.token}
	if err := p.subject(); err != nil {
		return nil, err
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	written := p.token
	if p.kind == atEnd || p.kind == atQuoted || !slices.Contains(operators, written) {
		return nil, p.noOperator(t.subject)
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	t.operator = operator(written)
	switch written {
	case "!=":
		t.operator, t.opposite = equals, true
	case "not_in":
		t.operator, t.opposite = within, true
	case "not_exists":
		t.operator, t.opposite = exists, true
	}
	if t.operator == exists {
		return t, nil
	}
	if t.operator == within {
		return p.choices(t)
	}
	column := p.column
	value, err := p.value(written)
	if err != nil {
		return nil, err
	}
	t.values = []string{value}
	if t.operator == matches {
		t.pattern, err = p.compile(value, column)
	}
	return t, err
}

func (p *queryParser) subject() error {
	key, isAttribute := strings.CutPrefix(p.token, subjectAttribute)
	switch {
	case p.kind != atWord || slices.Contains(keywords, p.token):
		return p.fail("expected name, platform or attribute:KEY, not %s", p.found())
	case p.token == subjectName || p.token == subjectPlatform:
		return nil
	case isAttribute && key == "":
		return p.fail("the key of the attribute is missing; it follows right after attribute:")
	case isAttribute && (len(key) > maxName || !validName().MatchString(key)):
		return p.fail("%.60q cannot be the name of an attribute: %s", key, nameRule)
	case isAttribute:
		return nil
	}
	hint := suggest.Closest(p.token, []string{subjectName, subjectPlatform})
	before, key, colon := strings.Cut(p.token, ":")
	switch {
	case colon && suggest.Closest(before, []string{"attribute"}) != "":
		hint = subjectAttribute + key
	case hint == "" && !colon && len(p.token) <= maxName && validName().MatchString(p.token):
		hint = subjectAttribute + p.token
	}
	return &QueryError{Column: p.column, Message: fmt.Sprintf("hosts have no %.60q; queries ask for name, platform or attribute:KEY", p.token), Hint: hint}
}

// noOperator is about what stands where an operator should.
func (p *queryParser) noOperator(subject string) error {
	err := &QueryError{Column: p.column, Message: fmt.Sprintf("expected an operator (%s) after %.60s, not %s", strings.Join(operators, ", "), subject, p.found())}
	if p.kind == atWord || p.kind == atSymbol {
		err.Hint = suggest.Closest(p.token, operators)
	}
	if p.is(atSymbol, "!~") {
		err.Hint = "not " + subject + " =~"
	}
	return err
}

// value reads a value after an operator.
func (p *queryParser) value(after string) (string, error) {
	value := p.token
	switch {
	case p.kind == atWord && slices.Contains(keywords, value):
		return "", p.fail("expected a value after %s; the word %s as a value is written in quotes", after, value)
	case p.kind == atSymbol || p.kind == atEnd:
		return "", p.fail("expected a value after %s, not %s", after, p.found())
	case len(value) > maxText:
		return "", p.fail("the value has %d bytes; at most %d are possible", len(value), maxText)
	}
	return value, p.next()
}

// choices reads the list of in and not_in.
func (p *queryParser) choices(t test) (expr, error) {
	if !p.is(atSymbol, "(") {
		return nil, p.fail("expected a list such as (a, b) after %s, not %s", t.written(), p.found())
	}
	for after := "("; ; after = "," {
		if err := p.next(); err != nil {
			return nil, err
		}
		value, err := p.value(after)
		if err != nil {
			return nil, err
		}
		t.values = append(t.values, value)
		switch {
		case p.is(atSymbol, ")"):
			return t, p.next()
		case !p.is(atSymbol, ","):
			return nil, p.fail("expected , or ) in the list, not %s", p.found())
		}
	}
}

// compile makes a regular expression. Go's match in linear time, but a few
// nested repetitions would already fill the memory.
func (p *queryParser) compile(text string, column int) (*regexp.Regexp, error) {
	fail := func(message string) (*regexp.Regexp, error) {
		return nil, &QueryError{Column: column, Message: message}
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return fail("this is no regular expression: " + strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	if p.weight += weight(parsed); p.weight > maxQueryWeight {
		return fail("the regular expressions of the query are too large")
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return fail("this is no regular expression: " + err.Error())
	}
	return re, nil
}

// weight is about how many instructions a regular expression becomes.
func weight(re *syntax.Regexp) int {
	w := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		w = min(w+weight(sub), maxQueryWeight+1)
	}
	if re.Op == syntax.OpRepeat {
		w *= max(1, re.Min, re.Max)
	}
	return w
}
