package output_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/must"
)

func printed(t *testing.T, format string, print func(*output.Printer) error) string {
	f := must.Get(os.Create(filepath.Join(t.TempDir(), "out")))(t)
	defer func() { _ = f.Close() }()
	p := &output.Printer{Out: f, Err: f, Format: format, Getenv: func(string) string { return "" }}
	require.NoError(t, print(p))
	text := must.Get(os.ReadFile(f.Name()))(t)
	return string(text)
}

// TestAResultHasTwoForms prints what commands hand over: programs read a document, and
// people a sentence or a table.
func TestAResultHasTwoForms(t *testing.T) {
	rows := [][]string{{"NAME", "STATUS"}, {"größe", "–"}, {"x", "in progress"}}
	for name, c := range map[string]struct {
		print      func(*output.Printer) error
		text, json string
	}{
		"a sentence": {
			func(p *output.Printer) error { return p.Say(map[string]any{"valid": true}, "%s is valid", "m.yaml") },
			"m.yaml is valid\n", `{"valid":true,"version":1}` + "\n",
		},
		"a table": {
			func(p *output.Printer) error { return p.List(map[string]any{"all": 2}, "none", rows) },
			"NAME   STATUS\ngröße  –\nx      in progress\n", `{"all":2,"version":1}` + "\n",
		},
		"an empty table": {
			func(p *output.Printer) error { return p.List(map[string]any{"all": 0}, "none", rows[:1]) },
			"none\n", `{"all":0,"version":1}` + "\n",
		},
		"what was done": {
			func(p *output.Printer) error {
				return p.Recorded(map[string]any{}, []deploylog.Event{{Seq: 3}}, "web is 100% deleted", "; see env list")
			},
			"web is 100% deleted (event 3); see env list\n",
			`{"events":[{"seq":3,"id":"","deployment":"","target":"","event":"","attempt":0,"created_at":"0001-01-01T00:00:00Z"}],"version":1}` + "\n",
		},
		"nothing that had to be done": {
			func(p *output.Printer) error { return p.Recorded(map[string]any{}, nil, "web is as it was", "") },
			"web is as it was\n", `{"events":[],"version":1}` + "\n",
		},
		"the end of a controller": {func(p *output.Printer) error { return p.Ended("idle") }, "idle\n", ""},
		"parts": {
			func(p *output.Printer) error {
				return p.Sections("none", 2, func(i int) error { return p.Printf("%d\n", i) })
			}, "0\n\n1\n", "0\n\n1\n",
		},
		"a notice where nothing is drawn": {
			func(p *output.Printer) error {
				p.Suspend()()
				_, err := p.Notices().Write([]byte("note: waiting\n"))
				return err
			}, "note: waiting\n", "note: waiting\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.text, printed(t, "text", c.print), "people read")
			assert.Equal(t, c.json, printed(t, "json", c.print), "programs read")
		})
	}
}

func TestDigestsOfALogAreSafeToPrint(t *testing.T) {
	got := output.Digests("  ", map[string]string{"m.yaml": "0a", "b\x1b[2J": "1\x1b[31m\n# 2"})
	assert.Equal(t, "  b sha256:1 # 2\n  m.yaml sha256:0a\n", got)
}
