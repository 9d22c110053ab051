package expression

import "sync"

// maxParsed bounds the templates that are kept once they are parsed, in bytes of
// their text.
const maxParsed = 32 << 20

// templates are those that were parsed: one is examined where it is read, and
// evaluated later, and parsed once for both.
type templates struct {
	mu    sync.RWMutex
	trees map[string]*template
	size  int
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
	if t.trees[src] == nil && t.size+len(src) <= maxParsed {
		t.trees[src] = tree
		t.size += len(src)
	}
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
