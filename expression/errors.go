package expression

import "github.com/deployster-go/deployster/expression/python"

// What an evaluation fails with.
type (
	// SyntaxError says where a template is malformed.
	SyntaxError = python.SyntaxError
	// UndefinedError says that something is not there, and what is.
	UndefinedError = python.UndefinedError
	// EvalError says that an operation cannot be done with the values it got.
	EvalError = python.EvalError
	// LimitError says that an evaluation was given up because it would have taken
	// too long or too much memory.
	LimitError = python.LimitError
	// PathError says which value within a larger one failed.
	PathError = python.PathError
)
