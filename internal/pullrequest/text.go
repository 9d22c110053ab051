package pullrequest

import (
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/pullrequest/provider"
)

func titleOf(w Wanted) string {
	const most = 80 // characters of a revision
	revision := oneLine(w.Revision)
	if runes := []rune(revision); len(runes) > most {
		revision = string(runes[:most]) + "…"
	}
	return fmt.Sprintf("Promote %s to revision %s", w.Environment, revision)
}

func messageOf(p Place, w Wanted) string {
	return fmt.Sprintf("%s\n\nPipeline %s, stage %s.\n\n%s\n", titleOf(w), w.Pipeline, w.Stage, mark{key: w.Key, owner: p.Owner}.line())
}

// textOf is what a pull request says. What it names is in quotes of Markdown, so that nothing
// of it mentions anybody.
func textOf(p Place, w Wanted) provider.Text {
	code := func(text string) string { return "`" + strings.ReplaceAll(oneLine(text), "`", "'") + "`" }
	var values []string
	for _, v := range p.Values {
		values = append(values, code(v.Path.String())+" in "+code(v.File))
	}
	sets, list := values[0], ""
	if len(values) > 1 {
		sets, list = "these values", "\n\n- "+strings.Join(values, "\n- ")
	}
	body := fmt.Sprintf("Sets %s to %s, which brings that revision to environment %s (pipeline %s, stage %s).%s\n\n"+
		"Merging this takes it over. Closing it declines the revision. A newer revision replaces the commit on this branch.\n\n%s\n",
		sets, code(w.Revision), code(w.Environment), code(w.Pipeline), code(w.Stage), list, mark{key: w.Key, owner: p.Owner}.line())
	return provider.Text{Title: strings.ReplaceAll(titleOf(w), "`", "'"), Body: body}
}

// oneLine is a text of others as one line that does nothing to a terminal.
func oneLine(text string) string {
	return strings.Join(strings.Fields(phrase.Plain(text)), " ")
}
