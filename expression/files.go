package expression

import (
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// loader is what gonja reads files through. Nothing of gonja's that is used
// here reads any; files come by state.load, which keeps them in the workspace.
type loader struct{}

func (loader) Read(string) (io.Reader, error) {
	return nil, errors.New("files are read by include, import and extends only")
}
func (loader) Resolve(path string) (string, error)      { return path, nil }
func (l loader) Inherit(string) (loaders.Loader, error) { return l, nil }

// emptyLoader gives the empty template.
type emptyLoader struct{ loader }

func (emptyLoader) Read(string) (io.Reader, error) { return strings.NewReader(""), nil }

// include is {% include %}.
type include struct {
	statement
	s              *state
	name           nodes.Expression
	ignoreMissing  bool
	withoutContext bool
}

// context parses "with context" and "without context".
func context(args *parser.Parser, standard bool) bool {
	if t := args.MatchName("with", "without"); t != nil {
		args.MatchName("context")
		return t.Val == "with"
	}
	return standard
}

func (s *state) parseInclude(_ *parser.Parser, args *parser.Parser) (nodes.ControlStructure, error) {
	st := &include{statement: statement{args.Current()}, s: s}
	var err error
	if st.name, err = args.ParseExpression(); err != nil {
		return nil, err
	}
	if args.MatchName("ignore") != nil {
		if args.MatchName("missing") == nil {
			return nil, args.Error(`expected "missing"`, args.Current())
		}
		st.ignoreMissing = true
	}
	st.withoutContext = !context(args, true)
	return st, done(args, "include")
}

func (st *include) rewrite(p parsed) { st.name = p.of(st.name) }

func (st *include) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	s := st.s
	name := defined(unwrap(r.Eval(st.name)))
	s.at = position{st.location.Line, st.location.Col}
	names, ok := items(name)
	if !ok {
		names = []any{name}
	}
	for _, candidate := range names {
		root, err := s.load(s.fileName(candidate))
		if errors.Is(err, fs.ErrNotExist) && (st.ignoreMissing || len(names) > 1) {
			continue
		}
		if err != nil {
			s.fail("can not include %q: %s", candidate, err)
		}
		sub := r.Inherit()
		if st.withoutContext {
			sub.Environment.Context = s.globalScope()
		}
		var result error
		outer := s.file
		s.file = root.Identifier
		s.within(func() { result = s.renderer(root, sub.Environment.Context, r.Output).Execute() })
		s.file = outer
		return result
	}
	if !st.ignoreMissing {
		s.fail("none of the files to include is in the workspace")
	}
	return nil
}

func (s *state) fileName(v any) string {
	name, ok := defined(v).(string)
	if !ok {
		s.fail("a file name must be text, not %s", describe(v))
	}
	return name
}

// imports is {% import %} and {% from … import %}.
type imports struct {
	statement
	s           *state
	name        nodes.Expression
	as          string
	names       []string
	aliases     []string
	withContext bool
}

func (s *state) parseImport(_ *parser.Parser, args *parser.Parser) (nodes.ControlStructure, error) {
	st := &imports{statement: statement{args.Current()}, s: s}
	var err error
	if st.name, err = args.ParseExpression(); err != nil {
		return nil, err
	}
	if args.MatchName("as") == nil {
		return nil, args.Error(`expected "as"`, args.Current())
	}
	alias := args.Match(tokens.Name)
	if alias == nil {
		return nil, args.Error("expected a name", args.Current())
	}
	st.as = alias.Val
	st.withContext = context(args, false)
	return st, done(args, "import")
}

func (s *state) parseFrom(_ *parser.Parser, args *parser.Parser) (nodes.ControlStructure, error) {
	st := &imports{statement: statement{args.Current()}, s: s}
	var err error
	if st.name, err = args.ParseExpression(); err != nil {
		return nil, err
	}
	if args.MatchName("import") == nil {
		return nil, args.Error(`expected "import"`, args.Current())
	}
	for {
		name := args.Match(tokens.Name)
		if name == nil {
			return nil, args.Error("expected a name to import", args.Current())
		}
		alias := name
		if args.MatchName("as") != nil {
			if alias = args.Match(tokens.Name); alias == nil {
				return nil, args.Error("expected a name", args.Current())
			}
		}
		st.names, st.aliases = append(st.names, name.Val), append(st.aliases, alias.Val)
		if args.Match(tokens.Comma) == nil {
			break
		}
	}
	st.withContext = context(args, false)
	return st, done(args, "from")
}

func (st *imports) rewrite(p parsed) { st.name = p.of(st.name) }

// Execute renders the file for what it sets and defines.
func (st *imports) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	s := st.s
	name := s.fileName(unwrap(r.Eval(st.name)))
	s.at = position{st.location.Line, st.location.Col}
	root, err := s.load(name)
	if err != nil {
		s.fail("can not import %q: %s", name, err)
	}
	scope := s.globalScope()
	if st.withContext {
		scope = r.Environment.Context.Inherit()
	}
	seen := &exports{scope: scope, vars: map[string]any{}}
	s.within(func() {
		err = s.renderer(root, scope, io.Discard).Execute()
	})
	if err != nil {
		return err
	}
	seen.collect(root)
	if st.as != "" {
		r.Environment.Context.Set(st.as, &namespace{vars: seen.vars})
		return nil
	}
	for i, from := range st.names {
		value, ok := seen.vars[from]
		if !ok {
			value = s.undefined(func() *UndefinedError {
				return &UndefinedError{Name: from, Missing: from, Of: name, Defined: sortedKeys(seen.vars), Kind: "empty"}
			}, position{st.location.Line, st.location.Col})
		}
		r.Environment.Context.Set(st.aliases[i], value)
	}
	return nil
}

// exports are the names that a file binds at its top level.
type exports struct {
	scope *exec.Context
	vars  map[string]any
}

func (e *exports) collect(root *nodes.Template) {
	for name := range root.Macros {
		e.add(name)
	}
	for _, n := range root.Nodes {
		block, ok := n.(*nodes.ControlStructureBlock)
		if !ok {
			continue
		}
		if st, ok := block.ControlStructure.(*assign); ok {
			e.add(st.target.name)
			for _, t := range st.target.several {
				e.add(t.name)
			}
		}
	}
}

func (e *exports) add(name string) {
	if v, ok := e.scope.Get(name); ok && name != "" && name[0] != '_' {
		e.vars[name] = unwrap(v)
	}
}

// extends is {% extends 'file' %}; the file is known when parsing.
type extends struct {
	statement
	name nodes.Expression
}

func (s *state) parseExtends(p *parser.Parser, args *parser.Parser) (nodes.ControlStructure, error) {
	st := &extends{statement: statement{args.Current()}}
	name := args.Match(tokens.String)
	if name == nil {
		return nil, args.Error("extends takes a file name", args.Current())
	}
	if p.Template.Parent != nil {
		return nil, args.Error("a template can extend only one other", name)
	}
	if err := done(args, "extends"); err != nil {
		return nil, err
	}
	parent, err := s.load(name.Val)
	if err != nil {
		return nil, s.parsing.fail(name, "can not extend %q: %s", name.Val, err)
	}
	p.Template.Parent = parent
	st.name = text(name, name.Val)
	return st, nil
}

func (*extends) rewrite(parsed) {}

// Execute has nothing to do: gonja renders the parent instead.
func (*extends) Execute(*exec.Renderer, *nodes.ControlStructureBlock) error { return nil }
