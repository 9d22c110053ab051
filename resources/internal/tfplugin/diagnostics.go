package tfplugin

import (
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// Diagnostics are what a provider says about a call.
type Diagnostics []Diagnostic

// Diagnostic is an error or a warning.
type Diagnostic struct {
	Warning   bool
	Summary   string
	Detail    string
	Attribute cty.Path // of the configuration that it is about
}

func (d Diagnostic) String() string {
	text := strings.TrimSpace(d.Summary)
	if detail := strings.TrimSpace(d.Detail); detail != "" && detail != text {
		if text != "" {
			text = strings.TrimSuffix(text, ".") + ": "
		}
		text += detail
	}
	if path := PathText(d.Attribute); path != "" {
		text = path + ": " + text
	}
	return text
}

// Errors are those that are not warnings, as one error; nil if there are none.
func (d Diagnostics) Errors() error {
	var texts []string
	for _, one := range d {
		if !one.Warning {
			texts = append(texts, one.String())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return &DiagnosticsError{texts}
}

// Warnings are those that are no errors.
func (d Diagnostics) Warnings() (warnings []string) {
	for _, one := range d {
		if one.Warning {
			warnings = append(warnings, one.String())
		}
	}
	return warnings
}

// DiagnosticsError is what a provider says why it does not do something.
type DiagnosticsError struct{ Texts []string }

func (e *DiagnosticsError) Error() string { return strings.Join(e.Texts, "; ") }

// PathText writes a path as people do: ports[0].host.
func PathText(path cty.Path) string {
	var b strings.Builder
	for _, step := range path {
		switch step := step.(type) {
		case cty.GetAttrStep:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(step.Name)
		case cty.IndexStep:
			switch key := step.Key; {
			case !key.IsKnown() || key.IsNull():
				b.WriteString("[…]")
			case key.Type() == cty.Number:
				b.WriteString("[" + key.AsBigFloat().Text('f', -1) + "]")
			case key.Type() == cty.String:
				fmt.Fprintf(&b, "[%q]", key.AsString())
			default: // an element of a set, which has no name but itself
				b.WriteString("[…]")
			}
		}
	}
	return b.String()
}

func readDiagnostic(data []byte) (d Diagnostic, err error) {
	err = eachField(data, func(f field) (err error) {
		switch f.number {
		case 1:
			d.Warning = f.value == 2
		case 2:
			d.Summary = strings.ToValidUTF8(f.text(), "\uFFFD")
		case 3:
			d.Detail = strings.ToValidUTF8(f.text(), "\uFFFD")
		case 4:
			d.Attribute, err = readPath(f.bytes)
		}
		return err
	})
	return d, err
}

func readPath(data []byte) (path cty.Path, err error) {
	err = eachField(data, func(f field) error {
		if f.number != 1 {
			return nil
		}
		return eachField(f.bytes, func(f field) error {
			switch f.number {
			case 1:
				path = path.GetAttr(f.text())
			case 2:
				path = path.IndexString(f.text())
			case 3:
				path = path.Index(cty.NumberIntVal(f.int()))
			}
			return nil
		})
	})
	return path, err
}
