package pullrequest

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/pullrequest/provider"
	"github.com/deployster-go/deployster/internal/pullrequest/remote"
	"github.com/deployster-go/deployster/internal/pullrequest/wording"
)

// author returns who writes commits.
func (s Style) author() remote.Person {
	return personOf(cmp.Or(s.Author, "Deployster <deployster@localhost>"))
}

// committer returns who makes commits.
func (s Style) committer() remote.Person {
	if s.Committer == "" {
		return s.author()
	}
	return personOf(s.Committer)
}

func personOf(text string) remote.Person {
	name, mail, _ := strings.Cut(strings.TrimSuffix(text, ">"), "<")
	return remote.Person{Name: strings.TrimSpace(name), Mail: mail}
}

// fill fills in a template of the style.
func (p *Place) fill(template string, w Wanted) (string, error) {
	var files, paths []string
	for _, v := range p.Values {
		files, paths = append(files, v.File), append(paths, v.Path.String())
	}
	values := map[string]string{
		"revision": w.Revision, "pipeline": w.Pipeline, "stage": w.Stage, "environment": w.Environment,
		"file": strings.Join(files, ", "), "value": strings.Join(paths, ", "),
	}
	for name, value := range values {
		values[name] = oneLine(value)
	}
	return wording.Fill(template, values)
}

// title is one line for people.
func (p *Place) title(w Wanted) (string, error) {
	const most = 80 // characters of a revision
	if p.Style.Title == "" {
		return fmt.Sprintf("Promote %s to revision %s", w.Environment, phrase.Cut(oneLine(w.Revision), most)), nil
	}
	const mostTitle = 250 // characters, which all providers take
	text, err := p.fill(p.Style.Title, w)
	if err != nil {
		return "", fmt.Errorf("title %q: %w", p.Style.Title, err)
	}
	if text = phrase.Cut(oneLine(text), mostTitle); text == "" {
		return "", fmt.Errorf("title %q is empty for revision %s", p.Style.Title, oneLine(w.Revision))
	}
	return text, nil
}

// message is that of a commit. Its last lines are trailers, as git interpret-trailers reads them.
func (p *Place) message(w Wanted) (string, error) {
	title, err := p.title(w)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s\n\nPipeline %s, stage %s.", title, w.Pipeline, w.Stage)
	if p.Style.Message != "" {
		if text, err = p.fill(p.Style.Message, w); err != nil {
			return "", fmt.Errorf("commit message: %w", err)
		}
	}
	if text, err = cleaned(text); err != nil {
		return "", err
	}
	trailers, err := p.trailers(w)
	if err != nil {
		return "", err
	}
	author := p.Style.author()
	if by := fmt.Sprintf("Signed-off-by: %s <%s>", author.Name, author.Mail); p.Style.SignOff && !strings.Contains(text+"\n", "\n"+by+"\n") {
		trailers = append(trailers, by)
	}
	trailers = append(trailers, mark{key: w.Key, owner: p.Owner}.line())
	if !endsInTrailers(text) {
		text += "\n"
	}
	return text + "\n" + strings.Join(trailers, "\n") + "\n", nil
}

// trailers returns those of the style, without those that have no value for this revision.
func (p *Place) trailers(w Wanted) (lines []string, err error) {
	for _, template := range p.Style.Trailers {
		line, err := p.fill(template, w)
		if err != nil {
			return nil, fmt.Errorf("trailer %q: %w", template, err)
		}
		if line = oneLine(line); wording.IsTrailer(line) && !markOf(line).made() {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// cleaned is the text of a message as git would keep it.
func cleaned(text string) (string, error) {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(phrase.Plain(strings.TrimRight(line, "\r\n")), " ")
		if markOf(line).made() {
			return "", fmt.Errorf("the commit message has the line %q, by which Deployster knows its commits: leave it out", phrase.Cut(line, 100))
		}
		lines = append(lines, line)
	}
	text = strings.Trim(strings.Join(lines, "\n"), "\n")
	if text == "" {
		return "", errors.New("the commit message is empty")
	}
	return text, nil
}

// endsInTrailers reports whether the last paragraph of a message is one of trailers.
func endsInTrailers(text string) bool {
	_, last, more := cutLast(text, "\n\n")
	if !more {
		return false
	}
	for line := range strings.Lines(last) {
		if !wording.IsTrailer(line) {
			return false
		}
	}
	return true
}

func cutLast(text, by string) (before, after string, found bool) {
	i := strings.LastIndex(text, by)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(by):], true
}

// text is what a pull request says. What it names is in quotes of Markdown, so that nothing
// of it mentions anybody.
func (p *Place) text(w Wanted) (provider.Text, error) {
	title, err := p.title(w)
	if err != nil {
		return provider.Text{}, err
	}
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
	return provider.Text{Title: strings.ReplaceAll(title, "`", "'"), Body: body}, nil
}

// oneLine is a text of others as one line that does nothing to a terminal.
func oneLine(text string) string {
	return strings.Join(strings.Fields(phrase.Plain(text)), " ")
}
