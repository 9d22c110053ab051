package expression

import "sync"

// maxHeld bounds the trees that are kept, in bytes.
const maxHeld = 128 << 20

// templates are those that were parsed: one is examined where it is read, and
// evaluated later, and parsed once for both.
type templates struct {
	mu    sync.RWMutex
	trees map[string]*template
	held  int // at most so many bytes
}

func (t *templates) get(src string) *template {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.trees[src]
}

func (t *templates) put(src string, tree *template) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.trees == nil {
		t.trees = map[string]*template{}
	}
	if t.trees[src] == nil && t.held+tree.weight <= maxHeld {
		t.trees[src] = tree
		t.held += tree.weight
	}
}

// weigh is how many bytes a text and its tree take at most. The tree may be sixty
// times as large as the text: each operator makes a node.
func weigh(src string, tokens int) int {
	const keeping, unescaped, token = 1024, 2, 80
	return keeping + (1+unescaped)*len(src) + token*tokens
}

// template parses a text that is in no file, or returns what it was parsed to
// before: a tree is only read when it is evaluated. It throws as parse does.
func (e *Evaluator) template(src string) *template {
	if t := e.templates.get(src); t != nil {
		return t
	}
	t := e.parse("", src)
	e.templates.put(src, t)
	return t
}
