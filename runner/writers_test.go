package runner_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/runner/report"
)

// A plug by which another type could have it see something else is refused where something is made, and only warned of
// where it is asked or removed: what ran before stays removable. What may be of other runs is refused always.
func TestPlugsWithinWhatAnotherTypeWritesTo(t *testing.T) {
	const linked, nested = "a link that a type may have made", "which writer could replace"
	for name, c := range map[string]struct {
		in       string // path that reader is given
		alone    bool   // there is no writer
		pins     bool   // the engine mounts what was checked
		written  bool   // types of other runs may have written there
		optional bool
		made     string // why it is not made; "" is that it is
		asked    string // what is said where it is asked or removed
		refused  bool   // that is refused, too
	}{
		"beside it":                       {in: "other"},
		"a directory":                     {in: "site/data", made: nested, asked: nested},
		"a directory that is pinned":      {in: "site/data", pins: true},
		"through a link":                  {in: "site/made", pins: true, made: linked, asked: linked},
		"through a link, if it can":       {in: "site/made", pins: true, optional: true},
		"through a link nobody writes to": {in: "site/made", pins: true, alone: true},
		"through a link of another run":   {in: "site/made", pins: true, alone: true, written: true, made: linked, asked: linked, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, dir := range []string{"site/data", "other", "elsewhere"} {
				require.NoError(t, os.MkdirAll(filepath.Join(w.workspace, dir), 0o700))
			}
			require.NoError(t, os.Symlink("../elsewhere", filepath.Join(w.workspace, "site", "made")))
			for typ, plug := range map[string]string{
				"writer": `"out":{"container_path":"/out"}`,
				"reader": map[bool]string{true: `"in":{"container_path":"/in","writable":false,"optional":true}`, false: `"in":{"container_path":"/in","writable":false}`}[c.optional],
			} {
				w.engine.Images[typ] = answering(`{"removable":true,"plugs":{`+plug+`},"state_action":{"args":["state"]}}`, `{"status":"VALID","state":{}}`, 0)
			}
			text := "plugs: {out: {path: site}, in: {path: " + c.in + "}}\nresources: {r: {type: reader, config: {}}"
			if !c.alone {
				text += ", w: {type: writer, config: {}}"
			}
			change := func(o *options) {
				if o.Pins = c.pins; c.written {
					o.Written = []string{filepath.Join(w.workspace, "site")}
				}
			}
			for what, do := range map[string]func() error{
				"apply":   func() error { _, err := w.apply(t, text+"}", change); return err },
				"plan":    func() error { _, err := w.runner(t, text+"}", change).Plan(t.Context()); return err },
				"drift":   func() error { _, _, err := w.drift(t, text+"}", change); return err },
				"destroy": func() error { _, err := w.destroy(t, text+"}", change); return err },
				"its plan": func() error {
					_, err := w.runner(t, text+"}", change).PlanDestroy(t.Context())
					return err
				},
			} {
				w.forget()
				err := do()
				made := what == "apply" || what == "plan"
				says := map[bool]string{true: c.made, false: c.asked}[made]
				if says != "" && (made || c.refused) {
					assert.ErrorContains(t, err, says, what)
					continue
				}
				assert.NoError(t, err, what)
				warned := ""
				for _, e := range w.events {
					if e.Kind == report.Warning && strings.Contains(e.Text, "plug") {
						warned += e.Text + "\n"
					}
				}
				switch {
				case says != "":
					assert.Contains(t, warned, says, what)
				case c.optional && made:
					assert.Equal(t, 1, strings.Count(warned, `goes on without the optional plug "in"`), "%s: %s", what, warned)
				default:
					assert.Empty(t, warned, what)
				}
			}
			in := 0
			for _, run := range w.engine.Runs() {
				for _, m := range run.Spec.Mounts {
					if m.Target == "/in" {
						in++
					}
				}
			}
			assert.Equal(t, !c.refused, in > 0, "it sees its plug")
		})
	}
}
