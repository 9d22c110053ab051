package view

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// Outputs are what a manifest tells, a line each.
func Outputs(told report.Outputs) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(told.Outputs)) {
		lines = append(lines, clean(name)+" = "+outputValue(told.Outputs[name]))
	}
	return lines
}

// outputValue is an output as JSON in one line, which nobody takes for another one.
func outputValue(o report.Output) string {
	if o.Secret {
		return invoke.Masked
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(o.Value); err != nil {
		return clean(err.Error())
	}
	return clean(strings.TrimSuffix(text.String(), "\n"))
}

// outputLines follow the verdict of a run that has any.
func outputLines(told report.Outputs) []string {
	lines := Outputs(told)
	if len(lines) == 0 {
		return nil
	}
	for i := range lines {
		lines[i] = "  " + lines[i]
	}
	return append([]string{"", "Outputs:"}, lines...)
}
