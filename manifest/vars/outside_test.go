package vars_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/declaration"
	"github.com/deployster-go/deployster/manifest/vars"
)

// world is where values come from that nobody gives.
type world struct {
	dir         string
	environment map[string]string
	prints      map[string]string // by command
	ran         []string
}

func newWorld(t *testing.T) *world {
	return &world{dir: t.TempDir(), environment: map[string]string{}, prints: map[string]string{}}
}

func (w *world) options(t *testing.T, section string, flags ...vars.Flag) vars.Options {
	t.Helper()
	all, err := manifest.Declarations([]manifest.Source{{Name: "m.yaml", Data: []byte("variables:\n" + section)}})
	if err != nil {
		t.Fatal(err)
	}
	return vars.Options{
		Workspace: w.dir, Evaluator: expression.New(w.dir), Declared: all, Flags: flags,
		Outside: &vars.Outside{
			Workspace: w.dir, Home: filepath.Join(w.dir, "home"),
			Lookup: func(name string) (string, bool) { value, set := w.environment[name]; return value, set },
			Run: func(argv []string) (string, error) {
				w.ran = append(w.ran, strings.Join(argv, " "))
				text, known := w.prints[argv[0]]
				if !known {
					return "", errors.New("running " + argv[0] + ": exit status 1: no such entry")
				}
				return text, nil
			},
		},
	}
}

func TestValuesFromOutsideAreBelowThoseThatAreGiven(t *testing.T) {
	const section = "  a: {default: 1}\n  b: {type: string, file: secret}\n  c: {command: [pass, show, c]}\n"
	for _, c := range []struct {
		environment, file, flag string // values of all three
		want, ran               string
	}{
		{"", "", "", "1 of-file of-command", "pass show c"},
		{"env", "", "", "env env env", ""},
		{"env", "file", "", "file file file", ""},
		{"", "file", "", "file file file", ""},
		{"env", "file", "flag", "flag flag flag", ""},
		{"", "", "flag", "flag flag flag", ""},
	} {
		w := newWorld(t)
		w.prints["pass"] = "of-command"
		write(t, w.dir, "secret", "of-file\n")
		var flags []vars.Flag
		for _, name := range []string{"a", "b", "c"} {
			if c.environment != "" {
				w.environment[vars.EnvironmentPrefix+name] = c.environment
			}
			if c.flag != "" {
				flags = append(flags, vars.Flag{Name: name, Value: c.flag})
			}
		}
		if c.file != "" {
			write(t, w.dir, "vars.auto.yaml", fmt.Sprintf("a: %[1]s\nb: %[1]s\nc: %[1]s\n", c.file))
		}
		got, err := vars.Load(w.options(t, section, flags...))
		if said := fmt.Sprint(got["a"], " ", got["b"], " ", got["c"]); err != nil || said != c.want || strings.Join(w.ran, ";") != c.ran {
			t.Errorf("%v: %s %v (ran %v)", c, said, err, w.ran)
		}
	}
}

func TestTextsFromOutsideAreTakenAsTheyStand(t *testing.T) {
	for _, c := range []struct {
		schema, text string
		want         any
	}{
		{"type: string", "15", "15"},
		{"type: string", `"quoted"`, `"quoted"`},
		{"type: string", "{{ 1 + 1 }} {% if", "{{ 1 + 1 }} {% if"},
		{"type: string", "", ""},
		{"description: any", "15", "15"},
		{"type: integer", "15", int64(15)},
		{"type: boolean", "true", true},
		{"type: array", "[1, a]", []any{int64(1), "a"}},
		{"type: object", "{a: '{{ 1 }}'}", map[string]any{"a": "{{ 1 }}"}},
	} {
		w := newWorld(t)
		w.environment[vars.EnvironmentPrefix+"x"] = c.text
		got, err := vars.Load(w.options(t, "  x: {"+c.schema+"}\n"))
		if err != nil || !reflect.DeepEqual(got["x"], c.want) {
			t.Errorf("%s of %s: %#v %v", c.text, c.schema, got["x"], err)
		}
	}
}

func TestValuesFromOutsideThatCannotBeHad(t *testing.T) {
	for section, want := range map[string]string{
		"  x: {file: nosuch}\n":              `m.yaml:2:13: variables.x.file: DIR/nosuch: there is no such file`,
		"  x: {file: ~/key}\n":               `m.yaml:2:13: variables.x.file: DIR/home/key: there is no such file`,
		"  x: {file: fifo}\n":                `m.yaml:2:13: variables.x.file: DIR/fifo: is a FIFO, not a file: `,
		"  x: {file: .}\n":                   `m.yaml:2:13: variables.x.file: DIR: is a directory`,
		"  x: {file: huge}\n":                `m.yaml:2:13: variables.x.file: DIR/huge: has 1048577 bytes or more; at most 1048576 (1 MiB) are possible`,
		"  x: {file: latin1}\n":              `DIR/latin1: x: the value is not valid UTF-8`,
		"  x: {type: integer, file: link}\n": `DIR/link: x: must be an integer, not a string (rule "type" of the variable x at m.yaml:2:3)`,
		"  x: {command: [pass]}\n":           `m.yaml:2:16: variables.x.command: running pass: exit status 1: no such entry`,
		"  x: {type: integer}\n":             `DEPLOYSTER_VAR_x: x: must be an integer, not a string (rule "type" of the variable x at m.yaml:2:3)`,
	} {
		w := newWorld(t)
		if strings.Contains(section, "{type: integer}") {
			w.environment[vars.EnvironmentPrefix+"x"] = "many"
		}
		write(t, w.dir, "huge", strings.Repeat("x", 1<<20+1))
		write(t, w.dir, "latin1", "caf\xe9")
		write(t, w.dir, "text", "no number\n")
		if err := errors.Join(os.Symlink("text", filepath.Join(w.dir, "link")), syscall.Mkfifo(filepath.Join(w.dir, "fifo"), 0o600)); err != nil {
			t.Fatal(err)
		}
		_, err := vars.Load(w.options(t, section))
		if err == nil || !strings.HasPrefix(strings.ReplaceAll(err.Error(), w.dir, "DIR"), want) {
			t.Errorf("%s%v\nwant %s", section, err, want)
		}
	}
}

// Where commands are not run, something stands for what they would print.
func TestCommandsThatAreNotRun(t *testing.T) {
	for schema, want := range map[string]any{
		"type: string": "", "type: string, minLength: 1": "x", "type: integer, minimum: 1": int64(1), "type: array": []any{}, "enum: [{a: 1}]": "",
	} {
		w := newWorld(t)
		o := w.options(t, "  x: {command: [pass], "+schema+"}\n")
		var unknown []string
		o.Outside.Run, o.Outside.Unknown = nil, func(d *declaration.Variable) { unknown = append(unknown, d.Name) }
		got, err := vars.Load(o)
		if err != nil || !reflect.DeepEqual(got["x"], want) || strings.Join(unknown, " ") != "x" {
			t.Errorf("%s: %#v %v %v", schema, got["x"], err, unknown)
		}
	}
}
