package pullrequest

import (
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/pullrequest/provider"
)

// mark is the beginning of the line by which a commit and a pull request are known again.
const mark = "Deployster-Promotion: "

// withdrawnMark takes its place in a pull request that is closed here: that nobody declines.
const withdrawnMark = "Deployster-Withdrawn: "

// keyOf is the promotion that a text is of, "" for none.
func keyOf(text string) string { return marked(text, mark) }

// isOurs reports whether a pull request with this text was opened by this package.
func isOurs(text string) bool { return keyOf(text) != "" || marked(text, withdrawnMark) != "" }

// withdrawn is the text of a pull request that is closed here.
func withdrawn(text string) string { return strings.ReplaceAll(text, mark, withdrawnMark) }

func marked(text, mark string) string {
	for line := range strings.Lines(text) {
		if key, ok := strings.CutPrefix(strings.TrimSpace(line), mark); ok {
			return key
		}
	}
	return ""
}

// madeHere reports whether a commit with this message was made by this package.
func madeHere(message string) bool { return keyOf(message) != "" }

func titleOf(w Wanted) string {
	const most = 80 // characters of a revision
	revision := oneLine(w.Revision)
	if runes := []rune(revision); len(runes) > most {
		revision = string(runes[:most]) + "…"
	}
	return fmt.Sprintf("Promote %s to revision %s", w.Environment, revision)
}

func messageOf(w Wanted) string {
	return fmt.Sprintf("%s\n\nPipeline %s, stage %s.\n\n%s%s\n", titleOf(w), w.Pipeline, w.Stage, mark, w.Key)
}

// textOf is what a pull request says. What it names is in quotes of Markdown, so that nothing
// of it mentions anybody.
func textOf(p Place, w Wanted) provider.Text {
	code := func(text string) string { return "`" + strings.ReplaceAll(oneLine(text), "`", "'") + "`" }
	body := fmt.Sprintf("Sets %s in %s to %s, which brings that revision to environment %s (pipeline %s, stage %s).\n\n"+
		"Merging this takes it over. Closing it declines the revision. A newer revision replaces the commit on this branch.\n\n%s%s\n",
		code(p.Value.String()), code(p.File), code(w.Revision), code(w.Environment), code(w.Pipeline), code(w.Stage), mark, w.Key)
	return provider.Text{Title: strings.ReplaceAll(titleOf(w), "`", "'"), Body: body}
}

// oneLine is a text of others as one line that does nothing to a terminal.
func oneLine(text string) string {
	return strings.Join(strings.Fields(phrase.Plain(text)), " ")
}
