package view

import (
	"bytes"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/runner/report"
)

// A type with a long name leaves the columns as they are: its end, which tells
// most, is shown.
func TestLongNamesOfTypesKeepTheColumns(t *testing.T) {
	const long = "registry.example.com:5000/platform/team-infrastructure/deployster-gcp-vm:2.14.1"
	resources := []report.ResourcePlan{
		{Name: "www", Type: long, Status: report.Valid}, {Name: "db", Type: "deployster/container", Status: report.Valid},
		{Name: "a-resource-with-a-rather-long-name", Type: "deployster/file", Status: report.Valid},
	}
	var plan bytes.Buffer
	if err := Plan(&plan, &report.Plan{Resources: resources}, PlanOptions{All: true}); err != nil {
		t.Fatal(err)
	}
	var live bytes.Buffer
	plain := NewPlain(&live, PlainOptions{All: true})
	var headers []report.ResourceHeader
	for _, r := range resources {
		headers = append(headers, report.ResourceHeader{Name: r.Name, Type: r.Type})
	}
	plain.Observe(report.Event{Kind: report.RunStarted, Resources: headers})
	for _, r := range resources {
		plain.Observe(report.Event{Kind: report.ResourceResolved, Resource: r.Name, Status: report.Valid})
	}
	if err := plain.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"plan": plan.String(), "run": live.String()} {
		columns := map[int]bool{}
		for _, line := range strings.Split(text, "\n") {
			if i := strings.LastIndex(strings.ToLower(line), "valid"); i >= 0 {
				columns[ansi.StringWidth(line[:i])] = true
			}
		}
		if len(columns) != 1 || !strings.Contains(text, "…rm/team-infrastructure/deployster-gcp-vm:2.14.1"[len("…rm/team-"):]) {
			t.Errorf("%s: statuses begin at %v:\n%s", name, columns, text)
		}
	}
}
