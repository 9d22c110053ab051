package expression

import (
	"io"
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
		"set": parseSet, "with": parseWith, "call": s.parseCall, "filter": parseFilter, "do": parseDo, "raw": parseRaw,
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
	target  target
	value   nodes.Expression
	body    *nodes.Wrapper
	filters []*nodes.FilterCall
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
	for args.Match(tokens.Pipe) != nil {
		filter, err := args.ParseFilter()
		if err != nil {
			return nil, err
		}
		st.filters = append(st.filters, filter)
	}
	if err := done(args, "set"); err != nil {
		return nil, err
	}
	st.body, err = body(p, "endset")
	return st, err
}

func (st *assign) rewrite() {
	if st.value != nil {
		st.value = operate("checked", st.location, rewrite(st.value))
		return
	}
	rewriteNodes(st.body.Nodes)
	st.value = operate("name", st.location, nil, text(st.location, "__body"))
	for _, f := range st.filters {
		st.value = filterNode(f, st.value)
	}
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

func (st *with) rewrite() {
	st.values = rewriteAll(st.values)
	rewriteNodes(st.body.Nodes)
}

func (st *with) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	sub := r.Inherit()
	for i, name := range st.names {
		sub.Environment.Context.Set(name, unwrap(r.Eval(st.values[i])))
	}
	return sub.ExecuteWrapper(st.body)
}

// call is {% call(x) macro() %}.
type call struct {
	statement
	s      *state
	params []string
	call   nodes.Expression
	body   *nodes.Wrapper
}

func (s *state) parseCall(p *parser.Parser, args *parser.Parser) (nodes.ControlStructure, error) {
	st := &call{statement: statement{args.Current()}, s: s}
	if args.Match(tokens.LeftParenthesis) != nil {
		for args.Match(tokens.RightParenthesis) == nil {
			name := args.Match(tokens.Name)
			if name == nil {
				return nil, args.Error("expected the name of a parameter", args.Current())
			}
			st.params = append(st.params, name.Val)
			if args.Match(tokens.Comma) == nil && args.Current(tokens.RightParenthesis) == nil {
				return nil, args.Error(`expected "," or ")"`, args.Current())
			}
		}
	}
	x, err := args.ParseExpression()
	if err != nil {
		return nil, err
	}
	if _, ok := x.(*nodes.Call); !ok {
		return nil, args.Error("expected the call of a macro", st.location)
	}
	if err := done(args, "call"); err != nil {
		return nil, err
	}
	st.call = x
	st.body, err = body(p, "endcall")
	return st, err
}

func (st *call) rewrite() {
	st.call = operate("out", st.location, rewrite(st.call))
	rewriteNodes(st.body.Nodes)
}

func (st *call) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	caller := &function{name: "caller", call: func(s *state, a *args) any {
		values := a.bind(st.params...)
		sub := r.Inherit()
		for i, name := range st.params {
			sub.Environment.Context.Set(name, values[i])
		}
		var out string
		s.within(func() {
			text, err := capture(sub, st.body)
			if err != nil {
				throw(&EvalError{Line: st.location.Line, Column: st.location.Col, Message: rootMessage(err)})
			}
			out = text
		})
		return out
	}}
	// This is where gonja's macros look for their caller.
	st.s.top.Set("__gonja_caller__", caller)
	value := r.Eval(st.call)
	st.s.top.Set("__gonja_caller__", nil)
	_, err := io.WriteString(r.Output, unwrap(value).(string))
	return err
}

// filtered is {% filter upper %}.
type filtered struct {
	statement
	filters []*nodes.FilterCall
	chain   nodes.Expression
	body    *nodes.Wrapper
}

func parseFilter(p *parser.Parser, args *parser.Parser) (nodes.ControlStructure, error) {
	st := &filtered{statement: statement{args.Current()}}
	for {
		filter, err := args.ParseFilter()
		if err != nil {
			return nil, err
		}
		st.filters = append(st.filters, filter)
		if args.Match(tokens.Pipe) == nil {
			break
		}
	}
	if err := done(args, "filter"); err != nil {
		return nil, err
	}
	var err error
	st.body, err = body(p, "endfilter")
	return st, err
}

func (st *filtered) rewrite() {
	var x nodes.Expression = operate("name", st.location, nil, text(st.location, "__body"))
	for _, f := range st.filters {
		x = filterNode(f, x)
	}
	st.chain = operate("out", st.location, x)
	rewriteNodes(st.body.Nodes)
}

func (st *filtered) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	out, err := capture(r, st.body)
	if err != nil {
		return err
	}
	sub := r.Inherit()
	sub.Environment.Context.Set("__body", out)
	_, err = io.WriteString(r.Output, unwrap(sub.Eval(st.chain)).(string))
	return err
}

// do evaluates and drops the value.
type do struct {
	statement
	value nodes.Expression
}

func parseDo(_ *parser.Parser, args *parser.Parser) (nodes.ControlStructure, error) {
	st := &do{statement: statement{args.Current()}}
	var err error
	if st.value, err = args.ParseExpression(); err != nil {
		return nil, err
	}
	return st, done(args, "do")
}

func (st *do) rewrite() { st.value = rewrite(st.value) }

func (st *do) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	unwrap(r.Eval(st.value))
	return nil
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

func (st *raw) rewrite() {}

func (st *raw) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	return r.ExecuteWrapper(st.body)
}
