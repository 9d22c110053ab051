package expression

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nikolalohinski/gonja/v2/tokens"
)

// names finds what a template reads without binding it, from its tokens. A
// name that is bound anywhere in the template counts as bound everywhere, so
// that nothing is reported that might be fine.
type names struct {
	s       *state
	refs    []Ref
	index   map[string]int
	bound   map[string]bool
	tested  map[string]bool // names that "is defined" is asked of
	include *tokens.Token   // the outermost include, which stands for everything in the file
	visited map[string]bool
}

// references returns the names that the template needs.
func (s *state) references(g *grammar) []Ref {
	n := &names{s: s, index: map[string]int{}, tested: map[string]bool{}, visited: map[string]bool{}, bound: map[string]bool{}}
	for name := range s.e.globals {
		n.bound[name] = true
	}
	for _, name := range strings.Fields("self loop super caller varargs kwargs true false none True False None") {
		n.bound[name] = true
	}
	n.template(g)
	refs := slices.DeleteFunc(n.refs, func(r Ref) bool { return n.bound[r.Name] })
	for i := range refs {
		refs[i].Optional = refs[i].Optional || n.tested[refs[i].Name]
	}
	return refs
}

func (n *names) template(g *grammar) {
	var list []*tokens.Token
	for _, t := range g.tokens {
		switch t.Type {
		case tokens.Whitespace:
		case tokens.VariableBegin, tokens.BlockBegin, tokens.Data, tokens.CommentBegin:
			list = nil
		case tokens.VariableEnd:
			n.expression(list)
		case tokens.BlockEnd:
			n.tag(g, list)
		default:
			list = append(list, t)
		}
	}
}

func (n *names) bind(list []*tokens.Token) {
	for i, t := range list {
		if t.Type != tokens.Name {
			continue
		}
		if i+1 < len(list) && list[i+1].Type == tokens.Dot {
			n.read(t, false)
		} else if i == 0 || list[i-1].Type != tokens.Dot {
			n.bound[t.Val] = true
		}
	}
}

// tag reads the inside of a statement.
func (n *names) tag(g *grammar, list []*tokens.Token) {
	if len(list) == 0 {
		return
	}
	name, rest := list[0].Val, list[1:]
	switch name {
	case "set":
		sides, assign := split(rest, tokens.Assign)
		targets, filters := split(sides[0], tokens.Pipe)
		n.bind(targets[0])
		if len(assign) > 0 {
			n.expression(slices.Concat(sides[1:]...))
		} else if len(filters) > 0 {
			n.expression(sides[0][len(targets[0]):])
		}
	case "with":
		parts, _ := split(rest, tokens.Comma)
		for _, part := range parts {
			sides, _ := split(part, tokens.Assign)
			n.bind(sides[0])
			n.expression(slices.Concat(sides[1:]...))
		}
	case "for":
		in := slices.IndexFunc(rest, func(t *tokens.Token) bool { return t.Type == tokens.In })
		if in >= 0 {
			n.bind(rest[:in])
			rest = rest[in+1:]
			if last := len(rest) - 1; last > 0 && rest[last].Val == "recursive" {
				rest = rest[:last]
			}
			n.expression(rest)
		}
	case "macro", "call":
		n.macro(name, rest)
	case "block", "endblock", "raw", "endraw":
	case "filter":
		n.expression(append([]*tokens.Token{made(list[0], tokens.Pipe, "|")}, rest...))
	case "include", "import", "from", "extends":
		n.file(name, list[0], rest)
	default:
		n.expression(rest)
	}
}

// macro binds a macro and the parameters, and reads their defaults.
func (n *names) macro(tag string, list []*tokens.Token) {
	if tag == "macro" && len(list) > 0 {
		n.bound[list[0].Val] = true
		list = list[1:]
	}
	if len(list) == 0 || list[0].Type != tokens.LeftParenthesis {
		n.expression(list)
		return
	}
	depth, end := 0, 0
	for end < len(list) {
		if isOpening(list[end].Type) {
			depth++
		} else if isClosing(list[end].Type) {
			if depth--; depth == 0 {
				break
			}
		}
		end++
	}
	params, _ := split(list[1:min(end, len(list))], tokens.Comma)
	for _, param := range params {
		sides, _ := split(param, tokens.Assign)
		n.bind(sides[0])
		n.expression(slices.Concat(sides[1:]...))
	}
	n.expression(list[min(end+1, len(list)):])
}

// file reads the name of another template. A constant one is followed: its
// mistakes are mistakes of the template that includes it.
func (n *names) file(tag string, at *tokens.Token, list []*tokens.Token) {
	words := []string{"as", "import", "ignore", "missing", "with", "without", "context"}
	end := slices.IndexFunc(list, func(t *tokens.Token) bool {
		return t.Type == tokens.Name && slices.Contains(words, t.Val)
	})
	if end < 0 {
		end = len(list)
	}
	n.expression(list[:end])
	rest := list[end:]
	if tag == "import" || tag == "from" {
		for i, t := range rest {
			if t.Type == tokens.Name && (i == 0 || !slices.Contains(words, t.Val)) {
				n.bound[t.Val] = true
			}
		}
	}
	if end != 1 || list[0].Type != tokens.String || n.visited[list[0].Val] {
		return
	}
	name := list[0].Val
	n.visited[name] = true
	if _, err := n.s.load(name); err != nil {
		if len(rest) == 0 || rest[0].Val != "ignore" {
			throw(&SyntaxError{Line: at.Line, Column: at.Col, Message: "can not " + strings.Replace(tag, "from", "import", 1) + " " + strconv.Quote(name) + ": " + err.Error()})
		}
		return
	}
	src, err := n.s.e.read(name)
	if err != nil {
		return // it went away meanwhile
	}
	inner := n.s.lex(name, src)
	if n.include == nil {
		n.include = at
		defer func() { n.include = nil }()
	}
	// What sees no variables is not checked against them.
	isolated := tag == "import" || tag == "from" || slices.ContainsFunc(rest, func(t *tokens.Token) bool { return t.Val == "without" })
	refs := n.refs
	n.template(inner)
	if isolated {
		n.refs = refs
		for name, i := range n.index {
			if i >= len(refs) {
				delete(n.index, name)
			}
		}
	}
}

// expression reads the names in an expression.
func (n *names) expression(list []*tokens.Token) {
	at := func(i int) *tokens.Token {
		if i < 0 || i >= len(list) {
			return &tokens.Token{Type: tokens.EOF}
		}
		return list[i]
	}
	depth := 0
	for i, t := range list {
		if isOpening(t.Type) {
			depth++
		} else if isClosing(t.Type) {
			depth--
		}
		if t.Type != tokens.Name || slices.Contains([]string{"if", "else"}, t.Val) {
			continue
		}
		before := at(i - 1).Type
		if before == tokens.Not {
			before = at(i - 2).Type // in "is not"
			if before != tokens.Is {
				before = tokens.Not
			}
		}
		if before == tokens.Dot || before == tokens.Pipe || before == tokens.Is {
			continue // an attribute, a filter, a test
		}
		if depth > 0 && at(i+1).Type == tokens.Assign {
			continue // a named argument
		}
		optional := at(i+1).Type == tokens.Pipe && (at(i+2).Val == "default" || at(i+2).Val == "d")
		if at(i+1).Type == tokens.Is {
			test := at(i + 2)
			if test.Type == tokens.Not {
				test = at(i + 3)
			}
			if test.Val == "defined" || test.Val == "undefined" {
				n.tested[t.Val] = true
				optional = true
			}
		}
		n.read(t, optional)
	}
}

func (n *names) read(t *tokens.Token, optional bool) {
	if i, ok := n.index[t.Val]; ok {
		n.refs[i].Optional = n.refs[i].Optional && optional
		return
	}
	where := t
	if n.include != nil {
		where = n.include
	}
	n.index[t.Val] = len(n.refs)
	n.refs = append(n.refs, Ref{Name: t.Val, Line: where.Line, Column: where.Col, Optional: optional})
}
