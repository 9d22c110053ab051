package expression

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strconv"
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
func (s *state) usage(t *template) Usage {
	n := &names{s: s, bound: map[string]bool{"self": true, "loop": true, "super": true}, tested: map[string]bool{}, visited: map[visit]bool{}}
	for name := range s.e.globals {
		n.bound[name] = true
	}
	var refs []Ref
	index := map[string]int{}
	mentioned := map[string]bool{}
	for _, use := range n.template(t) {
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
func (n *names) template(t *template) []Ref {
	outer := n.uses
	n.uses = nil
	n.nodes(t.body.nodes)
	for _, name := range slices.Sorted(maps.Keys(t.blocks)) {
		n.nodes(t.blocks[name].body.nodes)
	}
	uses := n.uses
	n.uses = outer
	slices.SortStableFunc(uses, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return uses
}

func (n *names) nodes(list []node) {
	for _, x := range list {
		n.node(x)
	}
}

func (n *names) node(x node) {
	switch x := x.(type) {
	case *printed:
		n.expression(x.x)
	case *branch:
		n.expressions(x.tests)
		for _, body := range x.bodies {
			n.nodes(body)
		}
	case *loopNode:
		n.target(x.target)
		n.expressions([]expr{x.list, x.test})
		n.nodes(x.body.nodes)
		if x.otherwise != nil {
			n.nodes(x.otherwise.nodes)
		}
	case *assign:
		n.target(x.target)
		n.expression(x.value)
	case *assignBody:
		n.target(x.target)
		n.expression(x.value)
		n.nodes(x.body.nodes)
	case *with:
		n.bind(x.names...)
		n.expressions(x.values)
		n.nodes(x.body.nodes)
	case *macro:
		n.bind(x.name)
		n.bind(x.params...)
		n.expressions(x.defaults)
		n.nodes(x.body.nodes)
	case *include:
		n.follow(x.at, "include", x.name, x.ignoreMissing, x.withoutContext)
	case *imports:
		n.bind(x.aliases...)
		n.follow(x.at, "import", x.name, false, !x.withContext)
	case *extends:
		n.follow(x.at, "extend", &constant{x.name}, false, false)
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
func (n *names) follow(at position, verb string, name expr, ignoreMissing, isolated bool) {
	n.expression(name)
	file, ok := "", false
	if c, isConstant := name.(*constant); isConstant {
		file, ok = c.value.(string)
	}
	if !ok {
		n.dynamic = true
		return
	}
	outer, seen := visit{n.file, n.isolated}, visit{file, n.isolated || isolated}
	if n.visited[seen] {
		return
	}
	n.visited[seen] = true
	t, err := n.s.load(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && ignoreMissing:
		return
	case err != nil:
		throw(syntaxError(n.file, at, "can not %s %s: %s", verb, strconv.Quote(file), err))
	}
	n.file, n.isolated = seen.file, seen.isolated
	uses := n.template(t)
	n.file, n.isolated = outer.file, outer.isolated
	for _, use := range uses {
		use.Line, use.Column = at.line, at.column
		n.uses = append(n.uses, use)
	}
}

func (n *names) expressions(list []expr) {
	for _, x := range list {
		n.expression(x)
	}
}

func (n *names) expression(x expr) {
	switch x := x.(type) {
	case *name:
		n.use(x.at, x.name, false)
	case *sequence:
		n.expressions(x.items)
	case *mapping:
		n.expressions(x.keys)
		n.expressions(x.values)
	case *attribute:
		n.expression(x.of)
	case *item:
		n.expressions([]expr{x.of, x.key})
	case *slice:
		n.expression(x.of)
		n.expressions(x.bounds[:])
	case *call:
		n.expression(x.function)
		n.arguments(x.args)
	case *filtered:
		n.operand(x.in, x.filter == "default" || x.filter == "d", false)
		n.arguments(x.args)
	case *tested:
		asked := x.test == "defined" || x.test == "undefined"
		n.operand(x.in, asked, asked)
		n.arguments(x.args)
	case *not:
		n.expression(x.x)
	case *unary:
		n.expression(x.x)
	case *binary:
		n.expressions([]expr{x.left, x.right})
	case *logic:
		n.expressions([]expr{x.left, x.right})
	case *comparison:
		n.expression(x.left)
		for _, step := range x.steps {
			n.expression(step.right)
		}
	case *conditional:
		n.expressions([]expr{x.test, x.then, x.otherwise})
	}
}

// operand is what a filter or a test is applied to, which may put up with an
// undefined name.
func (n *names) operand(x expr, optional, tested bool) {
	read, ok := x.(*name)
	if !ok || !optional {
		n.expression(x)
		return
	}
	n.use(read.at, read.name, true)
	if tested {
		n.tested[read.name] = true
	}
}

func (n *names) arguments(a arguments) {
	n.expressions(a.positional)
	n.expressions(a.named)
}

func (n *names) use(at position, name string, optional bool) {
	if !n.isolated {
		n.uses = append(n.uses, Ref{Name: name, Line: at.line, Column: at.column, Optional: optional})
	}
}
