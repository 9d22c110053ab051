package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/observed"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/manifest"
)

const declared = `
variables:
  password: {type: string, writeOnly: true, default: s3cret-word}
  pin: {type: integer, writeOnly: true, default: 7}
  greeting: {default: 'hello {{ password }}'}
resources:
  index-file: {type: deployster/file, config: {path: a, content: b}}
  new: {type: deployster/file, config: {path: c, content: d}}
  all: {type: deployster/file, for_each: [x, y], config: {path: e, content: f}}
  off: {type: deployster/file, when: false, config: {path: g, content: h}}
  empty: {type: deployster/file, for_each: [], config: {path: i, content: j}}
modules:
  web: {source: ./web, vars: {token: '{{ password }}', code: 12, site: '{{ x.state.path }}'}, dependencies: {x: index-file}}
  sites: {source: ./web, for_each: [a], vars: {token: t, code: 1, site: s}}
  vacant: {source: ./web, for_each: [], vars: {token: t, code: 1, site: s}}
`

const module = `
variables: {token: {writeOnly: true}, code: {type: integer, writeOnly: true}, site: {}}
resources:
  page: {type: deployster/file, config: {path: k, content: l}}
outputs:
  path: '{{ page.state.path }}'
  loud: '{{ token | upper }}'
  code: '{{ code }}'
  site: '{{ site }}'
  hidden: {value: '{{ page.state.path }}', writeOnly: true}
`

// someScope is the scope of what is declared, and what it notes.
func someScope(t *testing.T) (*scope, *[]string) {
	t.Helper()
	workspace := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(workspace, "web"), 0o700), os.WriteFile(filepath.Join(workspace, "web", "module.yaml"), []byte(module), 0o600)); err != nil {
		t.Fatal(err)
	}
	in, err := work.Inputs{Workspace: workspace, Now: time.Now, Hide: func(any) {}}.Load([]manifest.Source{{Name: "m.yaml", Data: []byte(declared)}}, work.LoadOptions{})
	require.NoError(t, err)
	noted := &[]string{}
	return newScope(in, sources{
		note: func(text string) { *noted = append(*noted, text) },
		outputs: func(context.Context) (map[string]any, error) {
			return map[string]any{"url": "http://s3cret-word@h"}, nil
		},
		state: func(_ context.Context, resource string) (map[string]any, error) {
			if resource == "new" {
				return nil, fmt.Errorf("%s: %w: no run found it well yet", resource, observed.ErrUnknown)
			}
			return map[string]any{"path": resource + "!", "seen": "s3cret-word"}, nil
		},
	}), noted
}

func TestExpressionsSeeWhatWasSeenLastWithoutSecrets(t *testing.T) {
	for _, tc := range []struct {
		text, fails string
		want        any
		notes       int
	}{
		{text: "{{ index_file.state.path }}", want: "index-file!"},
		{text: "{{ all.x.state.path ~ (all | length) }}", want: "all[x]!2"},
		{text: "{{ index_file.type }} {{ index_file.name }}", want: "deployster/file index-file"},
		{text: "{{ off is defined }}", want: false},
		{text: "{{ empty }} {{ empty | length }}", want: "{} 0"},
		{text: "{{ web.path }}", want: "web.page!"},
		{text: "{{ web.site }}", want: "index-file!"},
		{text: "{{ web.loud ~ web.code ~ web.hidden }}", want: "(SECRET)(secret)(secret)"},
		{text: "{{ sites.a.path }}", want: "sites[a].page!"},
		{text: "{{ vacant }}", want: map[string]any{}},
		{text: "{{ web.page }}", fails: `web has no "page"`},
		{text: "{{ password }}", want: "(secret)"},
		{text: "{{ password | upper }}", want: "(SECRET)"},
		{text: "{{ password[0] }}", want: "("},
		{text: "{{ pin + 1 }}", fails: "cannot"},
		{text: "{{ greeting }}", want: "hello (secret)"},
		{text: "{{ index_file.state.seen }}", want: "(secret)"},
		{text: "{{ outputs.url }}", want: "http://(secret)@h"},
		{text: "{{ new.name }}", want: "new", notes: 1},
		{text: "{{ new.state.path }}", fails: `new has no "state"`, notes: 1},
		{text: "{{ indx_file }}", fails: "defined are"},
		{text: "{{ range(10 ** 9) | list }}", fails: "more than"},
		{text: "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}", fails: "steps"},
	} {
		t.Run(tc.text, func(t *testing.T) {
			s, noted := someScope(t)
			got, err := s.evaluate(t.Context(), tc.text)
			failed := err != nil && tc.fails != "" && strings.Contains(err.Error(), tc.fails)
			assert.False(t, !failed && (err != nil || tc.fails != "" || !reflect.DeepEqual(got, tc.want)), "it is %#v, %v", got, err)
			assert.Len(t, *noted, tc.notes, "it is noted")
		})
	}
}

func TestFaultsPointAtTheirColumn(t *testing.T) {
	for _, tc := range []struct{ text, where, point string }{
		{"1 +", "column 4: ", "  1 +\n     ^\n"},
		{"größe", "column 1: ", "  größe\n  ^\n"},
		{"'字' ~ nothing", "column 7: ", "  '字' ~ nothing\n         ^\n"},
		{"'\x1b[31m' ~ nothing", "column 11: ", "  '' ~ nothing\n       ^\n"},
		{strings.Repeat("1 + ", 100) + "nothing" + strings.Repeat(" + 1", 100), "column 401: ",
			"  …" + strings.Repeat("1 + ", 13)[2:] + "nothing + 1 + 1 + 1 + 1 +\n  " + strings.Repeat(" ", 51) + "^\n"},
		{"{{ 1 }} {{ nothing }}", "column 12: ", "  {{ 1 }} {{ nothing }}\n             ^\n"},
		{"range(10 ** 9) | list", "", ""},
	} {
		t.Run(tc.where, func(t *testing.T) {
			s, _ := someScope(t)
			template, before := "{{ "+tc.text+" }}", 3
			if strings.Contains(tc.text, "{{") {
				template, before = tc.text, 0
			}
			_, err := s.evaluate(t.Context(), template)
			require.Error(t, err, "it has a value")
			f := faultOf(err, tc.text, before)
			if f.where() != tc.where || f.point(tc.text) != tc.point {
				t.Errorf("%s%s\n%s", f.where(), f.message, f.point(tc.text))
			}
			assert.NotContains(t, f.message, "}}", "it says what nobody wrote")
		})
	}
}

func TestLinesAreBounded(t *testing.T) {
	long := strings.Repeat("x", 3*mostLine)
	l := newLines(strings.NewReader("a\n\n" + long + "\nb\r\n" + strings.Repeat("y", mostLine-1) + "\nlast"))
	var got []string
	for {
		text, err := l.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, errTooLong) {
			text = "too long"
		} else if err != nil {
			t.Fatal(err)
		}
		got = append(got, text)
	}
	assert.Equal(t, []string{"a", "", "too long", "b\r", strings.Repeat("y", mostLine-1), "last"}, got, "they are %.300q")
}

func TestValuesAreSafeToPrint(t *testing.T) {
	for want, value := range map[string]any{
		"null": nil, "3": int64(3), `"<a>"`: "<a>", "[]": []any{},
		"{\n  \"a\": [\n    true\n  ]\n}":       map[string]any{"a": []any{true}},
		"\"\\u001b[2J\\u001b]0;t\\u0007 evil\"": "\x1b[2J\x1b]0;t\a \u202e\u009bevil",
	} {
		got, err := written(value)
		assert.True(t, err == nil && got == want, "%#v is %q, %v", value, got, err)
	}
}
