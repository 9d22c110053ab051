package value

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/internal/pattern"
)

// Readers of YAML disagree about what a scalar without quotes is: YAML 1.1 reads 0123456 as octal,
// 1:30 as 90 and "on" as true, JavaScript reads 12e4567 as infinite, Python reads hexadecimal numbers
// of any length. Charts of Helm print a number in its shortest form, so 1.10 becomes 1.1. A text is
// therefore written without quotes only if every reader takes it for that text, and a number only if
// it prints as it is written.
var (
	numberLike = pattern.Lazy(`^[-+]?(0[xX][0-9a-fA-F_]*|0[oO][0-7_]*|0[bB][01_]*|[0-9][0-9_,]*(:[0-9_]+)*(\.[0-9_.]*)?([eE][-+]?[0-9_]+)?|\.[0-9_]+([eE][-+]?[0-9]+)?|\.?(inf|infinity|nan))$`)
	dateLike   = pattern.Lazy(`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?$`)
	wordLike   = pattern.Lazy(`^(y|n|yes|no|on|off|true|false|null|~|=|<<)$`)
)

// plainText reports whether every reader takes the text without quotes for a text.
func plainText(text string) bool {
	lower := strings.ToLower(text)
	if version := strings.Count(text, ".") > 1 && !strings.ContainsAny(text, ":_"); !version && numberLike().MatchString(lower) {
		return false
	}
	if dateLike().MatchString(text) || wordLike().MatchString(lower) {
		return false
	}
	encoded, err := yaml.Marshal(text)
	return err == nil && string(encoded) == text+"\n"
}

// plainNumber reports whether every reader takes the text without quotes for a number and prints
// that as it is written.
func plainNumber(text string) bool {
	f, err := strconv.ParseFloat(text, 64)
	return err == nil && fmt.Sprint(f) == text && strings.Trim(text, "0123456789.-") == ""
}

// truths are what readers of YAML 1.1 take for true and false, of which YAML 1.2 knows only some.
var truths = map[string]string{"y": "true", "yes": "true", "on": "true", "true": "true", "n": "false", "no": "false", "off": "false", "false": "false"}

// truth returns what readers of YAML 1.1 take a scalar for, true or false, or "".
func truth(node *yaml.Node) string {
	lower := strings.ToLower(node.Value)
	of, is := truths[lower]
	if !is || node.Style != 0 || !slices.Contains([]string{lower, strings.ToUpper(lower), strings.ToUpper(lower[:1]) + lower[1:]}, node.Value) {
		return ""
	}
	return of
}

// valueOf returns a scalar as a program reads it.
func valueOf(node *yaml.Node) string {
	if truth := truth(node); truth != "" {
		return truth
	}
	if node.Style != 0 || node.Tag != "!!int" && node.Tag != "!!float" || plainNumber(node.Value) {
		return node.Value
	}
	var number any
	if err := node.Decode(&number); err != nil {
		return node.Value
	}
	if f, is := number.(float64); is {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return fmt.Sprint(number)
}
