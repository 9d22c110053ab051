package expression

import (
	"strings"

	controls "github.com/nikolalohinski/gonja/v2/builtins/control_structures"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// The statements whose expressions gonja keeps to itself are implemented here,
// so that they can be rewritten too.

// structures are the statements of the language by their tags.
func (s *state) structures() map[string]parser.ControlStructureParser {
	all := map[string]parser.ControlStructureParser{
		"set": parseSet, "with": parseWith, "raw": parseRaw,
		"include": s.parseInclude, "import": s.parseImport, "from": s.parseFrom, "extends": s.parseExtends,
	}
	for _, tag := range []string{"if", "for", "macro", "block", "break", "continue"} {
		all[tag], _ = controls.All.Get(tag)
	}
	return all
}

// statement is what all of them share.
type statement struct{ location *tokens.Token }

func (st statement) Position() *tokens.Token { return st.location }
func (st statement) String() string          { return "statement" }

// body parses what is inside a statement up to its end tag.
func body(p *parser.Parser, end string) (*nodes.Wrapper, error) {
	w, args, err := p.WrapUntil(end)
	if err == nil && !args.End() {
		err = args.Error(end+" takes no arguments", args.Current())
	}
	return w, err
}

func done(args *parser.Parser, what string) error {
	if args.End() {
		return nil
	}
	return args.Error("expected the end of "+what, args.Current())
}

// capture renders a body to text.
func capture(r *exec.Renderer, w *nodes.Wrapper) (string, error) {
	var out strings.Builder
	sub := r.Inherit()
	sub.Output = &out
	err := sub.ExecuteWrapper(w)
	return out.String(), err
}

// assign is {% set %}: of an expression, or of a body through filters.
type assign struct {
	statement
	target target
	value  nodes.Expression
	body   *nodes.Wrapper
}

func parseSet(p *parser.Parser, args *parser.Parser) (nodes.ControlStructure, error) {
	st := &assign{statement: statement{args.Current()}}
	var err error
	if st.target, err = parseTarget(args); err != nil {
		return nil, err
	}
	if args.Match(tokens.Assign) != nil {
		if st.value, err = args.ParseExpression(); err != nil {
			return nil, err
		}
		return st, done(args, "set")
	}
	st.value = &nodes.Name{Name: made(st.location, tokens.Name, "__body")}
	if args.Match(tokens.Pipe) != nil {
		if st.value, err = args.ParseExpression(); err != nil {
			return nil, err
		}
	}
	if err := done(args, "set"); err != nil {
		return nil, err
	}
	st.body, err = body(p, "endset")
	return st, err
}

func (st *assign) rewrite(p parsed) {
	st.value = p.of(st.value)
	if st.body == nil {
		st.value = operate("defined", st.location, st.value)
		return
	}
	rewriteNodes(st.body.Nodes, p)
}

func (st *assign) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	in := r
	if st.body != nil {
		out, err := capture(r, st.body)
		if err != nil {
			return err
		}
		in = r.Inherit()
		in.Environment.Context.Set("__body", out)
	}
	value := in.Eval(st.value)
	if value.IsError() {
		return value
	}
	st.target.assign(r.Environment.Context, unwrap(value))
	return nil
}

// with is {% with a = 1 %}.
type with struct {
	statement
	names  []string
	values []nodes.Expression
	body   *nodes.Wrapper
}

func parseWith(p *parser.Parser, args *parser.Parser) (nodes.ControlStructure, error) {
	st := &with{statement: statement{p.Current()}}
	for !args.End() {
		name := args.Match(tokens.Name)
		if name == nil || args.Match(tokens.Assign) == nil {
			return nil, args.Error(`expected a name and "="`, args.Current())
		}
		value, err := args.ParseExpression()
		if err != nil {
			return nil, err
		}
		st.names, st.values = append(st.names, name.Val), append(st.values, value)
		if args.Match(tokens.Comma) == nil {
			break
		}
	}
	if err := done(args, "with"); err != nil {
		return nil, err
	}
	var err error
	st.body, err = body(p, "endwith")
	return st, err
}

func (st *with) rewrite(p parsed) {
	for i, value := range st.values {
		st.values[i] = p.of(value)
	}
	rewriteNodes(st.body.Nodes, p)
}

func (st *with) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	sub := r.Inherit()
	for i, name := range st.names {
		sub.Environment.Context.Set(name, unwrap(r.Eval(st.values[i])))
	}
	return sub.ExecuteWrapper(st.body)
}

// raw is text as it stands.
type raw struct {
	statement
	body *nodes.Wrapper
}

func parseRaw(p *parser.Parser, args *parser.Parser) (nodes.ControlStructure, error) {
	st := &raw{statement: statement{p.Current()}}
	if err := done(args, "raw"); err != nil {
		return nil, err
	}
	var err error
	st.body, err = body(p, "endraw")
	return st, err
}

func (st *raw) rewrite(parsed) {}

func (st *raw) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	return r.ExecuteWrapper(st.body)
}
