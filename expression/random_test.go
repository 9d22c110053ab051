package expression_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/ringtest"
)

var (
	seed        = flag.Uint64("random.seed", 1, "seed of the random expressions that are compared with Jinja2")
	expressions = flag.Int("random.expressions", ringtest.Cases(4_000, 20_000), "number of random expressions that are compared with Jinja2")
	templates   = flag.Int("random.templates", ringtest.Cases(1_000, 5_000), "number of random templates with statements that are compared with Jinja2")
	update      = flag.Bool("update", false, "record Jinja2's answers to random templates anew, in testdata")
)

const batch = 500

// experiment is a kind of random templates that are compared.
type experiment struct {
	make func(grammar) string
	// Where Jinja2's answers to the first ones are recorded, and how many.
	recorded string
	size     int
	// mostRefused bounds the share of templates with an answer that this
	// package may refuse. Much in them is odd on purpose: numbers beyond 64
	// bits, ranges as text, lists as keys.
	mostRefused float64
	// leastAnswered bounds the share that Jinja2 has an answer to.
	leastAnswered float64
}

var (
	ofExpressions = experiment{grammar.template, "testdata/random.json", 2500, 0.15, 0.45}
	ofStatements  = experiment{grammar.statements, "testdata/statements.json", 500, 0.1, 0.5}
)

func TestRandomExpressionsAgreeWithJinja2(t *testing.T) { ofExpressions.run(t, *expressions) }

func TestRandomStatementsAgreeWithJinja2(t *testing.T) { ofStatements.run(t, *templates) }

// run compares with the Jinja2 of this machine. Where there is none, its
// recorded answers stand for it, but not in CI nor in make test.
func (x experiment) run(t *testing.T, number int) {
	vars := load(t).Vars
	o := startOracle(t, vars, files)
	if o == nil {
		require.True(t, os.Getenv("CI") == "" && os.Getenv("JINJA2") != "required",
			"no Python on this machine has Jinja2: apt-get install python3-jinja2")
		t.Log("no Python on this machine has Jinja2: comparing with its recorded answers")
		x.compareRecorded(t, vars)
		return
	}
	t.Logf("comparing with Jinja2 %s, seed %d", o.version, *seed)
	g := grammar{rand.New(rand.NewPCG(*seed, 0))}
	c := newComparison(t, vars)
	var record []recordedAnswer
	for n := 0; n < number; n += batch {
		templates := make([]string, batch)
		for i := range templates {
			templates[i] = x.make(g)
		}
		for i, a := range o.answers(t, templates) {
			c.compare(templates[i], a)
			if len(record) < x.size {
				record = append(record, recordedAnswer{templates[i], a})
			}
		}
	}
	c.report(t, x)
	if *update {
		x.writeRecorded(t, record)
	}
}

func TestRecordedRandomExpressionsAgreeWithJinja2(t *testing.T) {
	ofExpressions.compareRecorded(t, load(t).Vars)
	ofStatements.compareRecorded(t, load(t).Vars)
}

type recordedAnswer struct {
	Template string `json:"t"`
	answer
}

func (x experiment) compareRecorded(t *testing.T, vars map[string]any) {
	t.Helper()
	data, err := os.ReadFile(x.recorded)
	require.NoError(t, err)
	var recorded []recordedAnswer
	require.NoError(t, json.Unmarshal(data, &recorded))
	require.True(t, len(recorded) >= x.size, "only %d recorded answers", len(recorded))
	c := newComparison(t, vars)
	for _, r := range recorded {
		c.compare(r.Template, r.answer)
	}
	c.report(t, x)
}

func (x experiment) writeRecorded(t *testing.T, record []recordedAnswer) {
	t.Helper()
	var b strings.Builder
	for i, r := range record {
		line, err := json.Marshal(r)
		require.NoError(t, err)
		b.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		b.Write(line)
	}
	require.NoError(t, os.WriteFile(x.recorded, []byte(b.String()+"\n]\n"), 0o600))
}

// comparison counts how this package's answers compare with Jinja2's.
type comparison struct {
	e                                 *expression.Evaluator
	vars                              map[string]any
	total, skipped, answered, refused int
	differing                         []string
}

func newComparison(t *testing.T, vars map[string]any) *comparison {
	workspace := t.TempDir()
	for name, content := range files {
		write(t, workspace, name, content)
	}
	return &comparison{e: expression.New(workspace), vars: vars}
}

func (c *comparison) compare(template string, a answer) {
	c.total++
	got, err := c.e.Evaluate(template, c.vars)
	differs := func(theirs string) {
		c.differing = append(c.differing, fmt.Sprintf("%s\n\tis %s, but %s", template, show(got), theirs))
	}
	switch {
	case a.Skip != "":
		c.skipped++
	case a.Error != "":
		if err == nil {
			differs("Jinja2 fails with " + a.Error)
		}
	default:
		c.answered++
		if err != nil {
			c.refused++
		} else if !a.agrees(got) {
			differs("Jinja2 has " + string(a.Value))
		}
	}
}

func (c *comparison) report(t *testing.T, x experiment) {
	t.Helper()
	answered, refused := float64(c.answered)/float64(c.total), float64(c.refused)/float64(c.answered)
	t.Logf("%d templates: Jinja2 answers %.1f%%, of which %.1f%% are refused here; %d cannot be compared", c.total, 100*answered, 100*refused, c.skipped)
	if answered < x.leastAnswered {
		t.Errorf("Jinja2 answers only %.1f%% of the templates: they test little", 100*answered)
	}
	if refused > x.mostRefused {
		t.Errorf("%.1f%% of what Jinja2 answers is refused, more than %.0f%%", 100*refused, 100*x.mostRefused)
	}
	// The shortest say most.
	slices.SortFunc(c.differing, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	for i, d := range c.differing {
		if i == 20 {
			t.Errorf("and %d more", len(c.differing)-i)
			break
		}
		t.Errorf("%s", d)
	}
}

func TestADifferentValueIsSeen(t *testing.T) {
	e := newComparison(t, nil)
	for template, theirs := range map[string]string{
		"{{ 1 }}": "1.0", "{{ 1.0 }}": "1", "{{ 0.0 }}": "-0.0", "{{ [1] }}": "[1, 2]", "{{ {'a': 1} }}": `{"b": 1}`,
		"{{ 'a' }}": `"b"`, "{{ true }}": "1", "{{ none }}": `""`, "{{ 9007199254740993 }}": "9007199254740992",
	} {
		before := len(e.differing)
		e.compare(template, answer{Value: json.RawMessage(theirs)})
		assert.True(t, len(e.differing) != before, "%s passes for %s", template, theirs)
		if e.compare(template, answer{Error: "TypeError"}); len(e.differing) != before+2 {
			t.Errorf("%s passes for a failure", template)
		}
	}
}
