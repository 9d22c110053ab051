package expression

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	controls "github.com/nikolalohinski/gonja/v2/builtins/control_structures"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// names finds what a template reads without binding it, from its tree. A name
// that is bound anywhere in the template counts as bound everywhere, so that
// nothing is reported that might be fine.
type names struct {
	s        *state
	file     string // the included file that is walked; "" is the value itself
	isolated bool   // it sees no variables, so that it is not checked against them
	uses     []Ref
	bound    map[string]bool
	tested   map[string]bool // names that "is defined" is asked of
	visited  map[visit]bool
	dynamic  bool // another template is read whose name is not known
}

type visit struct {
	file     string
	isolated bool
}

// usage finds the names that the template needs, by their first use, and all
// that it mentions.
func (s *state) usage(root *nodes.Template) Usage {
	n := &names{s: s, bound: map[string]bool{"self": true, "loop": true, "super": true}, tested: map[string]bool{}, visited: map[visit]bool{}}
	for name := range s.e.globals {
		n.bound[name] = true
	}
	var refs []Ref
	index := map[string]int{}
	mentioned := map[string]bool{}
	for _, use := range n.template(root) {
		mentioned[use.Name] = true
		i, known := index[use.Name]
		switch {
		case n.bound[use.Name]:
		case known:
			refs[i].Optional = refs[i].Optional && use.Optional
		default:
			index[use.Name] = len(refs)
			refs = append(refs, use)
		}
	}
	for i := range refs {
		refs[i].Optional = refs[i].Optional || n.tested[refs[i].Name]
	}
	return Usage{Refs: refs, Mentions: slices.Sorted(maps.Keys(mentioned)), Dynamic: n.dynamic}
}

// template returns the uses within a template in the order of the text, which
// is not that of the tree: a condition comes before what it is about.
func (n *names) template(t *nodes.Template) []Ref {
	outer := n.uses
	n.uses = nil
	n.nodes(t.Nodes)
	for _, name := range slices.Sorted(maps.Keys(t.Blocks)) {
		n.nodes(t.Blocks[name].Nodes)
	}
	uses := n.uses
	n.uses = outer
	slices.SortStableFunc(uses, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return uses
}

func (n *names) nodes(list []nodes.Node) {
	for _, node := range list {
		switch node := node.(type) {
		case *nodes.Output:
			n.expression(node.Expression)
		case *nodes.ControlStructureBlock:
			n.statement(node.Location, node.ControlStructure)
		}
	}
}

func (n *names) statement(tag *tokens.Token, st nodes.ControlStructure) {
	switch st := st.(type) {
	case *assign:
		n.target(st.target)
		n.expression(st.value)
		if st.body != nil {
			n.nodes(st.body.Nodes)
		}
	case *with:
		n.bind(st.names...)
		n.expressions(st.values)
		n.nodes(st.body.Nodes)
	case *include:
		n.follow(tag, "include", st.name, st.ignoreMissing, st.withoutContext)
	case *imports:
		n.bind(st.as)
		n.bind(st.aliases...)
		n.follow(tag, "import", st.name, false, !st.withContext)
	case *extends:
		n.follow(tag, "extend", st.name, false, false)
	case *controls.IfControlStructure:
		n.expressions(st.Conditions)
		for _, w := range st.Wrappers {
			n.nodes(w.Nodes)
		}
	case *controls.ForControlStructure:
		n.bind(st.Key, st.Value)
		n.expression(st.ObjectEvaluator)
		n.expression(st.IfCondition)
		n.nodes(st.BodyWrapper.Nodes)
		if st.EmptyWrapper != nil {
			n.nodes(st.EmptyWrapper.Nodes)
		}
	case *controls.MacroControlStructure:
		n.bind(st.Name)
		for _, param := range st.Kwargs {
			n.bind(param.Key.(*nodes.String).Val)
			n.expression(param.Value)
		}
		n.nodes(st.Wrapper.Nodes)
	}
}

func (n *names) bind(list ...string) {
	for _, name := range list {
		n.bound[name] = true
	}
}

func (n *names) target(t target) {
	for _, inner := range t.several {
		n.target(inner)
	}
	if t.attribute != "" {
		n.use(t.at, t.name, false)
	} else {
		n.bind(t.name)
	}
}

// follow reads another template where its name is constant: its mistakes are
// mistakes of the template that includes it, and its uses are where it does.
func (n *names) follow(tag *tokens.Token, verb string, name nodes.Expression, ignoreMissing, isolated bool) {
	n.expression(name)
	constant, ok := name.(*nodes.String)
	if !ok {
		n.dynamic = true
		return
	}
	outer, seen := visit{n.file, n.isolated}, visit{constant.Val, n.isolated || isolated}
	if n.visited[seen] {
		return
	}
	n.visited[seen] = true
	root, err := n.s.load(constant.Val)
	switch {
	case errors.Is(err, fs.ErrNotExist) && ignoreMissing:
		return
	case err != nil:
		throw(&SyntaxError{File: n.file, Line: tag.Line, Column: tag.Col, Message: "can not " + verb + " " + strconv.Quote(constant.Val) + ": " + err.Error()})
	}
	n.file, n.isolated = seen.file, seen.isolated
	uses := n.template(root)
	n.file, n.isolated = outer.file, outer.isolated
	for _, use := range uses {
		use.Line, use.Column = tag.Line, tag.Col
		n.uses = append(n.uses, use)
	}
}

func (n *names) expressions(list []nodes.Expression) {
	for _, x := range list {
		n.expression(x)
	}
}

// expression walks what rewrite made: operations, "and", "or" and constants.
func (n *names) expression(x nodes.Expression) {
	switch x := x.(type) {
	case *nodes.BinaryExpression:
		n.expression(x.Left)
		n.expression(x.Right)
	case *nodes.FilteredExpression:
		op := x.Filters[0]
		if name, ok := readName(x); ok {
			n.use(op.Token, name, false)
			return
		}
		name, isName := readName(x.Expression)
		optional := isName && n.copes(op, name)
		if optional {
			n.use(x.Expression.Position(), name, true)
		} else {
			n.expression(x.Expression)
		}
		n.expressions(op.Args)
		for _, arg := range op.Kwargs {
			n.expression(arg)
		}
	}
}

// readName is the name that an operation reads, if that is what it does.
func readName(x nodes.Expression) (string, bool) {
	if f, ok := x.(*nodes.FilteredExpression); ok && f.Filters[0].Name == "name" {
		return f.Filters[0].Args[1].(*nodes.String).Val, true
	}
	return "", false
}

// copes tells whether an operation puts up with an undefined name.
func (n *names) copes(op *nodes.FilterCall, name string) bool {
	if op.Name != "filter" && op.Name != "test" {
		return false
	}
	switch what := op.Args[1].(*nodes.String).Val; op.Name + " " + what {
	case "filter default", "filter d":
		return true
	case "test defined", "test undefined":
		n.tested[name] = true
		return true
	}
	return false
}

func (n *names) use(at *tokens.Token, name string, optional bool) {
	if !n.isolated && !strings.HasPrefix(name, "__") {
		n.uses = append(n.uses, Ref{Name: name, Line: at.Line, Column: at.Col, Optional: optional})
	}
}
