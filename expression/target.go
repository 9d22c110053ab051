package expression

import (
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// target is what can be assigned to: a name, an attribute of a namespace, or
// several targets.
type target struct {
	at        *tokens.Token
	name      string
	attribute string
	several   []target
}

func parseTarget(args *parser.Parser) (target, error) {
	var list []target
	first := args.Current()
	for {
		var t target
		if args.Match(tokens.LeftParenthesis) != nil {
			inner, err := parseTarget(args)
			if err != nil {
				return t, err
			}
			if args.Match(tokens.RightParenthesis) == nil {
				return t, args.Error(`expected ")"`, args.Current())
			}
			t = inner
		} else {
			name := args.Match(tokens.Name)
			if name == nil {
				return t, args.Error("expected a name to assign to", args.Current())
			}
			t = target{at: name, name: name.Val}
			if args.Match(tokens.Dot) != nil {
				attribute := args.Match(tokens.Name)
				if attribute == nil {
					return t, args.Error("expected a name", args.Current())
				}
				t.attribute = attribute.Val
			}
		}
		list = append(list, t)
		if args.Match(tokens.Comma) == nil {
			break
		}
	}
	if len(list) == 1 {
		return list[0], nil
	}
	return target{at: first, several: list}, nil
}

func (t target) assign(scope *exec.Context, v any) {
	fail := func(message string) {
		throw(&EvalError{Line: t.at.Line, Column: t.at.Col, Message: message})
	}
	switch {
	case t.several != nil:
		list, ok := items(v)
		if !ok || len(list) != len(t.several) {
			fail("can not assign " + describe(v) + " to these names: their numbers differ")
		}
		for i, inner := range t.several {
			inner.assign(scope, norm(list[i]))
		}
	case t.attribute != "":
		held, _ := scope.Get(t.name)
		ns, ok := unwrap(held).(*namespace)
		if !ok {
			fail("can not set " + t.name + "." + t.attribute + ": " + t.name + " is not a namespace()")
		}
		ns.vars[t.attribute] = v
	default:
		scope.Set(t.name, v)
	}
}
