package output

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/view"
)

// Dash is a text, or a dash in its place.
func Dash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// InLine makes of what somebody wrote one line that is safe to print.
func InLine(text string) string { return strings.Join(strings.Fields(view.Clean(text)), " ") }

// Digests are the SHA-256 of files by their names, each in a line of its own. Both may be
// what somebody wrote into a log.
func Digests(indent string, files map[string]string) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text += fmt.Sprintf("%s%s sha256:%s\n", indent, InLine(name), InLine(files[name]))
	}
	return text
}

// CommandLine writes a command so that a shell can run it.
func CommandLine(words ...string) string {
	for i, w := range words {
		words[i] = ShellWord(w)
	}
	return strings.Join(words, " ")
}

// Operand is a path so that no command takes it for a flag.
func Operand(path string) string {
	if strings.HasPrefix(path, "-") {
		return "./" + path
	}
	return path
}

var safeWord = regexp.MustCompile(`^[\pL\pN_@%+=:,./…-]+$`)

// ShellWord writes a word so that a shell takes it as one.
func ShellWord(w string) string {
	if safeWord.MatchString(w) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
