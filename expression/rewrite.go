package expression

import (
	"strconv"

	controls "github.com/nikolalohinski/gonja/v2/builtins/control_structures"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// gonja evaluates operators, subscripts, calls, filters and tests loosely: it
// adds text to numbers, divides by zero, takes None for undefined and repeats
// text without bound. Every such node is therefore rewritten into a filter of
// this package, an operation (see operations), which is strict, bounded and
// does as Python does. What remains gonja's are the scopes of names, the
// laziness of "and" and "or", macros, loops and inheritance.

// rewriteTemplate rewrites everything within a template and those it extends.
func rewriteTemplate(t *nodes.Template, p parsed) {
	rewriteNodes(t.Nodes, p)
	for _, block := range t.Blocks {
		rewriteNodes(block.Nodes, p)
	}
}

// rewriter is a statement of this package, which rewrites what it holds.
type rewriter interface{ rewrite(p parsed) }

func rewriteNodes(list []nodes.Node, p parsed) {
	for _, n := range list {
		switch n := n.(type) {
		case *nodes.Output:
			n.Expression = operate("out", n.Expression.Position(), p.of(n.Expression))
		case *nodes.ControlStructureBlock:
			rewriteStatement(n.ControlStructure, p)
		}
	}
}

func rewriteStatement(st nodes.ControlStructure, p parsed) {
	switch st := st.(type) {
	case rewriter:
		st.rewrite(p)
	case *controls.IfControlStructure:
		for i, condition := range st.Conditions {
			st.Conditions[i] = operate("truth", condition.Position(), p.of(condition))
		}
		for _, w := range st.Wrappers {
			rewriteNodes(w.Nodes, p)
		}
	case *controls.ForControlStructure:
		at := st.ObjectEvaluator.Position()
		targets := 1
		if st.Value != "" {
			targets = 2
		}
		st.ObjectEvaluator = operate("each", at, p.of(st.ObjectEvaluator), number(at, targets), number(at, dataBytes(st.BodyWrapper.Nodes)))
		if st.IfCondition != nil {
			st.IfCondition = operate("truth", at, p.of(st.IfCondition))
		}
		rewriteNodes(st.BodyWrapper.Nodes, p)
		if st.EmptyWrapper != nil {
			rewriteNodes(st.EmptyWrapper.Nodes, p)
		}
	case *controls.MacroControlStructure:
		for _, param := range st.Kwargs {
			if _, required := param.Value.(*nodes.Error); required {
				at := param.Key.Position()
				param.Value = operate("argument", at, nil, text(at, st.Name), param.Key)
			} else {
				param.Value = p.of(param.Value)
			}
		}
		rewriteNodes(st.Wrapper.Nodes, p)
	}
}

// dataBytes is how much plain text one round of a loop writes.
func dataBytes(list []nodes.Node) int {
	n := 0
	for _, node := range list {
		switch node := node.(type) {
		case *nodes.Data:
			n += len(node.Data.Val)
		case *nodes.ControlStructureBlock:
			if st, ok := node.ControlStructure.(*controls.IfControlStructure); ok {
				for _, w := range st.Wrappers {
					n += dataBytes(w.Nodes)
				}
			}
		}
	}
	return n
}

func text(at *tokens.Token, s string) nodes.Expression { return &nodes.String{Location: at, Val: s} }

func number(at *tokens.Token, n int) nodes.Expression { return &nodes.Integer{Location: at, Val: n} }

// operate makes the node that applies an operation. Its first argument is the
// position, line and column in one number.
func operate(name string, at *tokens.Token, in nodes.Expression, args ...nodes.Expression) *nodes.FilteredExpression {
	if in == nil {
		in = &nodes.None{Location: at}
	}
	where := number(at, at.Line<<columnBits|min(at.Col, 1<<columnBits-1))
	return &nodes.FilteredExpression{Expression: in, Filters: []*nodes.FilterCall{{
		Token: at, Name: name, Args: append([]nodes.Expression{where}, args...),
	}}}
}

const columnBits = 20

func rewriteAll(list []nodes.Expression) []nodes.Expression {
	out := make([]nodes.Expression, len(list))
	for i, x := range list {
		out[i] = rewrite(x)
	}
	return out
}

func rewriteNamed(named map[string]nodes.Expression) map[string]nodes.Expression {
	out := make(map[string]nodes.Expression, len(named))
	for name, x := range named {
		out[name] = rewrite(x)
	}
	return out
}

// rewrite rewrites an expression.
func rewrite(x nodes.Expression) nodes.Expression {
	switch x := x.(type) {
	case nil:
		throw(errNoOperand)
		return nil
	case *nodes.Name:
		return operate("name", x.Name, nil, text(x.Name, x.Name.Val))
	case *nodes.List:
		return operate("list", x.Location, nil, rewriteAll(x.Val)...)
	case *nodes.Tuple:
		return operate("tuple", x.Location, nil, rewriteAll(x.Val)...)
	case *nodes.Dict:
		var args []nodes.Expression
		for _, pair := range x.Pairs {
			args = append(args, rewrite(pair.Key), rewrite(pair.Value))
		}
		return operate("dict", x.Token, nil, args...)
	case *nodes.GetAttribute:
		return operate("attribute", x.Location, rewrite(x.Node), text(x.Location, x.Attribute), text(x.Location, source(x.Node)))
	case *nodes.GetItem:
		return operate("item", x.Location, rewrite(x.Node), rewrite(x.Arg), text(x.Location, source(x.Node)))
	case *nodes.GetSlice:
		bound := func(part nodes.Node) nodes.Expression {
			if part == nil {
				return &nodes.None{Location: x.Location}
			}
			return rewrite(part)
		}
		return operate("slice", x.Location, rewrite(x.Node), bound(x.Start), bound(x.End), bound(x.Step))
	case *nodes.Call:
		return rewriteCall(x)
	case *conditional:
		return rewriteConditional(x)
	case *comparison:
		return rewriteComparison(x)
	case *nodes.Negation:
		return operate("not", x.Operator, rewrite(x.Term))
	case *nodes.UnaryExpression:
		return operate("sign", x.Operator, rewrite(x.Term), text(x.Operator, x.Operator.Val))
	case *nodes.BinaryExpression:
		return rewriteBinary(x)
	case *nodes.FilteredExpression:
		in := rewrite(x.Expression)
		for _, f := range x.Filters {
			in = filterNode(f, in)
		}
		return in
	case *nodes.TestExpression:
		t := x.Test
		test := operate("test", t.Token, rewrite(x.Expression), append([]nodes.Expression{text(t.Token, t.Name)}, rewriteAll(t.Args)...)...)
		test.Filters[0].Kwargs = rewriteNamed(t.Kwargs)
		return test
	default:
		return x
	}
}

func filterNode(f *nodes.FilterCall, in nodes.Expression) nodes.Expression {
	out := operate("filter", f.Token, in, append([]nodes.Expression{text(f.Token, f.Name)}, rewriteAll(f.Args)...)...)
	out.Filters[0].Kwargs = rewriteNamed(f.Kwargs)
	return out
}

func rewriteCall(x *nodes.Call) nodes.Expression {
	at := x.Location
	call := operate("call", at, rewrite(x.Func), append([]nodes.Expression{text(at, source(x.Func))}, rewriteAll(x.Args)...)...)
	call.Filters[0].Kwargs = rewriteNamed(x.Kwargs)
	return call
}

// rewriteConditional has only the branch evaluated that is taken:
// (C and [X] or [Y])[0].
func rewriteConditional(x *conditional) nodes.Expression {
	at := x.at
	var otherwise nodes.Expression = operate("lenient", at, nil)
	if x.otherwise != nil {
		otherwise = rewrite(x.otherwise)
	}
	return operate("only", at, lazy(tokens.Or, at,
		lazy(tokens.And, at, operate("truth", at, rewrite(x.test)), operate("list", at, nil, rewrite(x.then))),
		operate("list", at, nil, otherwise)))
}

// rewriteComparison makes a < b < c to a < b and b < c.
func rewriteComparison(x *comparison) nodes.Expression {
	left := x.left
	var all nodes.Expression
	for _, o := range x.ops {
		one := operate("binary", o.op, rewrite(left), text(o.op, o.op.Val), rewrite(o.right))
		if left = o.right; all == nil {
			all = one
		} else {
			all = lazy(tokens.And, o.op, all, one)
		}
	}
	return all
}

// lazy makes an "and" or "or", which gonja evaluates as far as needed.
func lazy(kind tokens.Type, at *tokens.Token, left, right nodes.Expression) nodes.Expression {
	word := map[tokens.Type]string{tokens.And: "and", tokens.Or: "or"}[kind]
	return &nodes.BinaryExpression{Left: left, Right: right, Operator: &nodes.BinOperator{Token: made(at, kind, word)}}
}

func rewriteBinary(x *nodes.BinaryExpression) nodes.Expression {
	op := x.Operator.Token
	if op.Type == tokens.And || op.Type == tokens.Or {
		return lazy(op.Type, op, operate("checked", op, rewrite(x.Left)), rewrite(x.Right))
	}
	left := rewrite(x.Left)
	if op.Type == tokens.Power && !isPath(x.Left) && !isNumber(x.Right) {
		left = operate("base", op, left)
	}
	return operate("binary", op, left, text(op, op.Val), rewrite(x.Right))
}

func isPath(x nodes.Expression) bool { return source(x) != "" }

func isNumber(x nodes.Expression) bool {
	if sign, ok := x.(*nodes.UnaryExpression); ok {
		x = sign.Term
	}
	switch x.(type) {
	case *nodes.Integer, *nodes.Float:
		return true
	}
	return false
}

// source is how the template refers to a value, for messages; "" when that is
// not a plain path.
func source(x nodes.Node) string {
	switch x := x.(type) {
	case *nodes.Name:
		return x.Name.Val
	case *nodes.GetAttribute:
		of := source(x.Node)
		if of == "" {
			return ""
		}
		return of + "." + x.Attribute
	case *nodes.GetItem:
		of := source(x.Node)
		switch key := x.Arg.(type) {
		case *nodes.String:
			if of != "" {
				return of + "[" + quote(key.Val) + "]"
			}
		case *nodes.Integer:
			if of != "" {
				return of + "[" + strconv.Itoa(key.Val) + "]"
			}
		}
	}
	return ""
}
