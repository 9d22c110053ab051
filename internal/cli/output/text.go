package output

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/pipeline/record"
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

// Carried is what a revision carries: the SHA-256 of its files, and its variables, each in
// a line of its own. All of that may be what somebody wrote into a log.
func Carried(indent string, texts work.Texts, files map[string]string) string {
	named := maps.Clone(files)
	digest, known := named[revision.VariablesName]
	delete(named, revision.VariablesName)
	delete(named, revision.ImagesName)
	delete(named, revision.OmittedName)
	for name, digest := range files {
		if stage, ok := record.StageOfGroup(name); ok {
			delete(named, name)
			named["build group of stage "+stage] = digest
		}
	}
	text := Digests(indent, named) + omitted(indent, texts, files) + carriedImages(indent, texts, files)
	if !known {
		return text
	}
	variables, err := texts.Variables(files)
	if err != nil {
		return text + fmt.Sprintf("%svariables sha256:%s: %s\n", indent, InLine(digest), InLine(err.Error()))
	}
	for _, v := range variables {
		text += fmt.Sprintf("%svariable %s %s\n", indent, InLine(v.Name), InLine(v.Described()))
	}
	return text
}

// omitted is what lies where something is included and could not be carried.
func omitted(indent string, texts work.Texts, files map[string]string) string {
	all, err := texts.Omitted(files)
	if err != nil {
		return fmt.Sprintf("%s%s\n", indent, InLine(err.Error()))
	}
	text := ""
	for _, o := range all {
		text += fmt.Sprintf("%s%s\n", indent, InLine(o.Described()))
	}
	return text
}

func carriedImages(indent string, texts work.Texts, files map[string]string) string {
	images, err := texts.Images(files)
	if err != nil {
		return fmt.Sprintf("%simages sha256:%s: %s\n", indent, InLine(files[revision.ImagesName]), InLine(err.Error()))
	}
	text := ""
	for _, i := range images {
		text += fmt.Sprintf("%simage %s %s\n", indent, InLine(i.Image), InLine(i.Described()))
	}
	return text
}

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

// safeWord is a word that means itself to a shell.
var safeWord = pattern.Lazy(`^[\pL\pN_@%+=:,./…-]+$`)

// ShellWord writes a word so that a shell takes it as one.
func ShellWord(w string) string {
	if safeWord().MatchString(w) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
