package tfplugin

import (
	"bytes"
	"strings"
	"sync"
)

// keptOutput is how much of the end of a provider's output is kept.
const keptOutput = 16 << 10

// output keeps the end of what a provider writes, for the case that it crashes.
type output struct {
	mu   sync.Mutex
	text []byte
	cut  bool
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	if extra := len(o.text) - keptOutput; extra > 0 {
		o.text = append(o.text[:0], o.text[extra:]...)
		o.cut = true
	}
	return len(p), nil
}

// String is the text without lines that are records of the provider's log, which are
// JSON, and without a line whose beginning is lost.
func (o *output) String() string {
	o.mu.Lock()
	text := bytes.Clone(o.text)
	cut := o.cut
	o.mu.Unlock()
	lines := strings.Split(strings.ToValidUTF8(string(text), "\uFFFD"), "\n")
	if cut {
		lines = lines[1:]
	}
	kept := lines[:0]
	for _, line := range lines {
		if !strings.HasPrefix(line, `{"@`) {
			kept = append(kept, line)
		}
	}
	return strings.TrimSpace(strings.Join(kept, "\n"))
}
