package expression_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/waittest"
)

// series repeats a text with # standing for the number of the repetition.
func series(n int, text, separator string) string {
	var list []string
	for i := range n {
		list = append(list, strings.ReplaceAll(text, "#", fmt.Sprint(i)))
	}
	return strings.Join(list, separator)
}

// What a single node of a template can have many of must count, too, or a small
// template takes minutes within the bound on steps.
func TestLongLists(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "empty", "")
	write(t, dir, "blocks", "{% if false %}"+series(20_000, "{% block b# %}{% endblock %}", "")+"{% endif %}")
	loop := func(body string) string {
		return "{% for i in range(100000) %}{% for j in range(10) %}" + body + "{% endfor %}{% endfor %}"
	}
	for name, src := range map[string]string{
		"arguments":       loop("{% set x = loop.cycle(" + series(2400, "1", ",") + ") %}"),
		"parameters":      "{% macro m(" + series(2400, "p#", ",") + ") %}{% endmacro %}" + loop("{% set x = m() %}"),
		"named arguments": "{% macro m(" + series(1200, "p#", ",") + ") %}{% endmacro %}" + loop("{% set x = m("+series(1200, "p#=1", ",")+") %}"),
		"with":            loop("{% with " + series(1200, "a#=1", ",") + " %}{% endwith %}"),
		"imported names":  loop("{% from 'empty' import " + series(2400, "a#", ",") + " %}"),
		"blocks":          loop("{% include 'blocks' %}"),
		"context": strings.Repeat("{% with "+series(1200, "a#=1", ",")+" %}", 90) +
			loop("{% include 'empty' %}") + strings.Repeat("{% endwith %}", 90),
	} {
		t.Run(name, func(t *testing.T) {
			var limit *expression.LimitError
			err := soon(t, dir, src)
			assert.ErrorAs(t, err, &limit)
		})
	}
}

// A name that is looked up through many scopes costs more than a step.
func TestDeepScopes(t *testing.T) {
	const depth = 95
	loop := "{% for i in range(100000) %}" + strings.Repeat("{{ x }}", 5) + "{% endfor %}"
	err := soon(t, t.TempDir(), "{% set x = '' %}"+strings.Repeat("{% with a = 1 %}", depth)+loop+strings.Repeat("{% endwith %}", depth))
	var limit *expression.LimitError
	assert.ErrorAs(t, err, &limit)
	assert.NoError(t, soon(t, t.TempDir(), "{% set x = '' %}{% with a = 1 %}"+loop+"{% endwith %}"))
}

// Parsing counts no steps: it has to take time that is linear in the size.
func TestLongTemplates(t *testing.T) {
	for name, src := range map[string]string{
		"ifs":     series(30_000, "{{a# is defined}}", "") + strings.Repeat("{%if 1%}{%endif%}", 20_000),
		"numbers": "{{ " + strings.Repeat("1+", 2490) + strings.Repeat("0", 1_000_000) + " }}",
		"targets": "{% if false %}" + strings.Repeat("{% set "+series(2400, "a#", ",")+" = 1 %}", 50) + "{% endif %}",
	} {
		t.Run(name, func(t *testing.T) {
			assert.NoError(t, soon(t, t.TempDir(), src))
		})
	}
}

// soon evaluates a template, and fails the test if that hangs.
func soon(t *testing.T, dir, src string) error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := expression.New(dir).Evaluate(src, nil)
		done <- err
	}()
	return waittest.Receive(t, done, "the value of a template")
}
