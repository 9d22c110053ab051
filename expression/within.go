package expression

import "path"

// Within returns an evaluator whose templates include files of a directory, by names that
// begin there and do not lead out of it; "" is e itself. It is the same one each time.
func (e *Evaluator) Within(dir string) *Evaluator {
	if dir == "" {
		return e
	}
	if known, ok := e.below.Load(dir); ok {
		return known.(*Evaluator)
	}
	below := &Evaluator{library: e.library, globals: e.globals, whole: e.whole}
	below.files = func(name string) (string, error) { return e.read(path.Join(dir, name)) }
	known, _ := e.below.LoadOrStore(dir, below)
	return known.(*Evaluator)
}

// File returns a file that templates may include, as it is.
func (e *Evaluator) File(name string) (string, error) { return e.read(name) }
