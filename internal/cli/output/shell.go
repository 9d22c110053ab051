package output

import (
	"regexp"
	"strings"
)

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
