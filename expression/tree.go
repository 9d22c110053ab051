package expression

import (
	"strconv"

	"github.com/deployster-go/deployster/expression/python"
)

// template is a parsed text. It is never changed once it is made, so that it
// may be evaluated any number of times, also at once.
type template struct {
	file   string
	body   body
	blocks map[string]*block
	weight int // in bytes, at most
	mentions
}

// mentions are the names that a template reads and binds, and the templates
// that it refers to, in the order of the text.
type mentions struct {
	reads      []read
	bound      map[string]bool
	references []reference
}

// body is a sequence of nodes with names of its own.
type body struct {
	nodes []node
	uses  map[string]use
}

// An expr is part of an expression.
type expr interface{ eval(sc *scope) any }

// A node is part of a template: text, a printed expression or a statement.
type node interface{ run(sc *scope) signal }

// The expressions. at is where an error that comes up in one is.
type (
	constant struct{ value any }

	name struct {
		at   python.Position
		name string
	}

	sequence struct {
		items []expr
		tuple bool
	}

	mapping struct {
		at           python.Position
		keys, values []expr
	}

	attribute struct {
		at   python.Position
		of   expr
		name string
	}

	item struct {
		at      python.Position
		of, key expr
	}

	slice struct {
		at     python.Position
		of     expr
		bounds [3]expr // nil where it is left out
	}

	call struct {
		at       python.Position
		function expr
		args     arguments
	}

	// applied is a filter or a test.
	applied struct {
		at     python.Position
		in     expr
		name   string
		isTest bool
		args   arguments
	}

	// operation is an operator; one with a single operand has no left.
	operation struct {
		at          python.Position
		op          string
		left, right expr
	}

	// comparison is a chain: a < b < c has two steps.
	comparison struct {
		left  expr
		steps []comparisonStep
	}

	comparisonStep struct {
		at    python.Position
		op    string
		right expr
	}

	// conditional is "X if C else Y"; otherwise may be nil.
	conditional struct {
		at                    python.Position
		test, then, otherwise expr
	}

	// arguments are what a call passes.
	arguments struct {
		positional []expr
		names      []string
		named      []expr
	}
)

// The nodes.
type (
	text struct {
		text string
		tail bool
	}

	printed struct {
		at python.Position
		x  expr
	}

	// branch is {% if %}: the first of tests that is true chooses a body; the
	// last body may have no test. The bodies have no names of their own.
	branch struct {
		tests  []expr
		bodies [][]node
	}

	loopNode struct {
		at        python.Position
		target    target
		list      expr
		test      expr // nil without an "if"
		recursive bool
		mentions  bool // its body reads the name loop
		body      body
		otherwise *body
	}

	// jump is {% break %} or {% continue %}.
	jump struct{ signal signal }

	// assign is {% set %}: of a value, or of a body, with the filters that value
	// applies to captured.
	assign struct {
		at     python.Position
		target target
		value  expr
		body   *body
	}

	// captured is the rendered text of a {% set %} with a body.
	captured struct{}

	with struct {
		names  []string
		values []expr
		body   body
	}

	macro struct {
		at       python.Position
		name     string
		params   []string
		defaults []expr // of the last of params
		body     body
	}

	block struct {
		name string
		body body
	}

	include struct {
		at             python.Position
		name           expr
		ignoreMissing  bool
		withoutContext bool
	}

	// imports is {% import %}, with as, or {% from … import %}, with names.
	imports struct {
		at             python.Position
		name           expr
		as             string
		names, aliases []string
		withContext    bool
	}

	extends struct {
		at   python.Position
		name string
	}
)

// target is what can be assigned to: a name, an attribute of a namespace, or
// several targets.
type target struct {
	at        python.Position
	name      string
	attribute string
	several   []target
}

// source is how a template refers to a value, for messages; "" when that is
// not a plain path.
func source(x expr) string {
	switch x := x.(type) {
	case *name:
		return x.name
	case *attribute:
		if of := source(x.of); of != "" {
			return of + "." + x.name
		}
	case *item:
		of := source(x.of)
		key, ok := x.key.(*constant)
		if of == "" || !ok {
			return ""
		}
		switch key := key.value.(type) {
		case string:
			return of + "[" + python.Quote(key) + "]"
		case int64:
			return of + "[" + strconv.FormatInt(key, 10) + "]"
		}
	}
	return ""
}
