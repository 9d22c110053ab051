package pages

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/query"
)

// diffBody is how two revisions differ.
type diffBody struct {
	Of            string // path of what they are revisions of
	Before, After string
	Changes       []string // in words
	Parts         []diffPart
}

// diffPart is a unified diff of something.
type diffPart struct {
	Title string
	Lines []diffLine
}

// diffLine is a line with what has become of it.
type diffLine struct {
	Kind string // added, removed, place or same
	Text string
}

// mostLines are shown of a diff.
const mostLines = 5000

// partOfDiff is a unified diff as lines; ok is false of none.
func partOfDiff(title, text string) (part diffPart, ok bool) {
	part.Title = title
	for line := range strings.Lines(text) {
		if len(part.Lines) == mostLines {
			part.Lines = append(part.Lines, diffLine{"place", "… there are more lines, which are not shown"})
			break
		}
		kind := "same"
		switch {
		case strings.HasPrefix(line, "@@"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
			kind = "place"
		case strings.HasPrefix(line, "+"):
			kind = "added"
		case strings.HasPrefix(line, "-"):
			kind = "removed"
		}
		part.Lines = append(part.Lines, diffLine{kind, strings.TrimRight(line, "\n")})
	}
	return part, len(part.Lines) > 0
}

// environmentDiff is how two revisions of an environment differ; without a former one, how
// the later differs from the one that it was made from.
func (p *Pages) environmentDiff(r *http.Request, k *known) (page, error) {
	name := r.PathValue("name")
	before, err := number(r, "before")
	if err != nil {
		return page{}, err
	}
	after, err := number(r, "after")
	if err != nil {
		return page{}, err
	}
	later, err := k.environments.Revision(name, int(after))
	if err != nil {
		return page{}, fmt.Errorf("%w: %w", errNone, err)
	}
	if before == 0 {
		before = int64(max(later.Base, 1))
	}
	if _, err := k.environments.Revision(name, int(before)); err != nil {
		return page{}, fmt.Errorf("%w: %w", errNone, err)
	}
	d, err := k.environments.Differences(name, int(before), later.Number, work.TextsIn(p.Objects))
	if err != nil {
		return page{}, err
	}
	body := diffBody{Of: pathOf("environments", name), Before: fmt.Sprint(d.Before.Number), After: fmt.Sprint(d.After.Number)}
	for _, change := range d.Definition {
		body.Changes = append(body.Changes, change.String())
	}
	if part, ok := partOfDiff("Manifest, and what it includes", d.Manifest); ok {
		body.Parts = append(body.Parts, part)
	}
	return page{Title: fmt.Sprintf("%s: revision %d to %d", name, d.Before.Number, d.After.Number), Tab: "overview", look: "diff", Body: body}, nil
}

// pipelineDiff is how two revisions of a pipeline differ; without a former one, how the later
// differs from the one that was released before it.
func (p *Pages) pipelineDiff(r *http.Request, k *known) (page, error) {
	name, values := r.PathValue("name"), r.URL.Query()
	releases, err := k.pipelines.Releases(name)
	if err != nil {
		return page{}, err
	}
	before, after := values.Get("before"), values.Get("after")
	at := slices.IndexFunc(releases, func(r query.Release) bool { return r.Deployment == after })
	if before == "" && at > 0 {
		before = releases[at-1].Deployment
	} else if before == "" {
		before = after
	}
	d, err := k.pipelines.Differences(r.Context(), name, before, after, work.TextsIn(p.Objects))
	if err != nil {
		return page{}, err
	}
	body := diffBody{Of: pathOf("pipelines", name), Before: d.Before.Revision, After: d.After.Revision}
	for _, of := range []struct{ title, text string }{
		{"What it takes of other pipelines", d.Inputs}, {"Definition", d.Definition}, {"What it carries", d.Carried},
	} {
		if part, ok := partOfDiff(of.title, of.text); ok {
			body.Parts = append(body.Parts, part)
		}
	}
	return page{Title: fmt.Sprintf("%s: revision %s to %s", name, d.Before.Revision, d.After.Revision), Tab: "overview", look: "diff", Body: body}, nil
}
