package query

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// carried is what a revision carries.
type carried struct {
	revision string            // as it is shown
	files    map[string]string // SHA-256, by name
}

// differences is a unified diff of all that another revision carries otherwise; "" where it
// carries the same.
func (c carried) differences(kept work.Texts, other carried) (all string, err error) {
	names := maps.Clone(c.files)
	maps.Copy(names, other.files)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		one, err := textDifference(kept, text{c.revision, name, c.files[name]}, text{other.revision, name, other.files[name]})
		if err != nil {
			return all, err
		}
		all += one
	}
	return all, nil
}

// text is one that a revision carries; without a digest it carries none.
type text struct{ revision, name, digest string }

// textDifference is a unified diff of two texts.
func textDifference(kept work.Texts, before, after text) (string, error) {
	if before.digest == after.digest {
		return "", nil
	}
	var texts [2][]byte
	var titles [2]string
	for i, t := range []text{before, after} {
		name := strings.TrimPrefix(t.name, "/")
		titles[i] = fmt.Sprintf("%s (%s)", name, t.revision)
		if t.digest == "" {
			continue
		}
		var err error
		if texts[i], err = kept.Load(t.digest); err != nil {
			return "", fmt.Errorf("%s of revision %s: %w", name, t.revision, err)
		}
	}
	return unified(titles[0], texts[0], titles[1], texts[1]), nil
}

// unified is a unified diff without its title.
func unified(before string, from []byte, after string, to []byte) string {
	_, changed, _ := strings.Cut(string(diff.Diff(before, from, after, to)), "\n")
	return changed
}

// ReleaseDifferences is how two revisions of a pipeline differ, as unified diffs.
type ReleaseDifferences struct {
	Before     Release `json:"before"`
	After      Release `json:"after"`
	Inputs     string  `json:"inputs"`     // what they take of other pipelines
	Definition string  `json:"definition"` // what the pipeline was when they were released
	Carried    string  `json:"carried"`    // manifests, what they include, variables and images

	// Undeclared are the resources that steps on hosts declare in the one and no step there in the other, by
	// name. The other removes them from the hosts.
	Undeclared []string `json:"undeclared"`
}

// Differences compares two revisions of a pipeline.
func (p *Pipelines) Differences(ctx context.Context, name, before, after string, kept work.Texts) (d ReleaseDifferences, err error) {
	if d.Before, err = p.Release(name, before); err != nil {
		return d, err
	}
	if d.After, err = p.Release(name, after); err != nil {
		return d, err
	}
	definitions, err := p.definitionsOf(ctx, name, [2]Release{d.Before, d.After})
	if err != nil {
		return d, err
	}
	d.Inputs = unified(fmt.Sprintf("inputs (%s %s)", name, d.Before.Revision), takenLines(d.Before.Takes), fmt.Sprintf("inputs (%s %s)", name, d.After.Revision), takenLines(d.After.Takes))
	title := func(r Release) string { return fmt.Sprintf("definition (%s %s)", name, r.Revision) }
	d.Definition = unified(title(d.Before), definitions[0], title(d.After), definitions[1])
	if d.Before.Carries != nil && d.After.Carries != nil {
		d.Carried, err = carried{name + " " + before, d.Before.Carries}.differences(kept, carried{name + " " + after, d.After.Carries})
	}
	if d.Carried != "" {
		d.Carried = kept.Masking(d.Before.Carries, d.After.Carries)(d.Carried)
		// A text that is not kept here leaves only that open: the differences are known.
		d.Undeclared, _ = newDeclarations(kept).undeclared([2]map[string]string{d.Before.Carries, d.After.Carries}, [2][]hostStage{hostStages(definitions[0]), hostStages(definitions[1])})
	}
	return d, err
}

// definitionsOf are what a pipeline was when two revisions were released.
func (p *Pipelines) definitionsOf(ctx context.Context, name string, of [2]Release) (all [2][]byte, err error) {
	for i, r := range of {
		if all[i], err = p.definitionAt(ctx, name, r.Seq); err != nil {
			return all, fmt.Errorf("definition of revision %s: %w", r.Revision, err)
		}
	}
	return all, nil
}

// takenLines are inputs as lines to be compared.
func takenLines(inputs []upstream.Input) []byte {
	var text strings.Builder
	for _, in := range inputs {
		fmt.Fprintf(&text, "%s\n", in)
		for _, kind := range slices.Sorted(maps.Keys(in.Artifacts)) {
			fmt.Fprintf(&text, "  artifact %s %s\n", kind, in.Artifacts[kind])
		}
		for _, r := range in.Inputs {
			fmt.Fprintf(&text, "  released with %s\n", r)
		}
	}
	return []byte(text.String())
}

// definitionAt is what a pipeline was defined as right before an event, as a person reads it.
func (p *Pipelines) definitionAt(ctx context.Context, name string, seq int64) ([]byte, error) {
	filter := deploylog.Filter{Target: record.Target(name), Name: record.PipelineDefined, Until: seq, Last: 1}
	for e, err := range p.Log.Read(ctx, filter) {
		if err != nil {
			return nil, err
		}
		var data struct {
			Definition map[string]any `json:"definition"`
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			return nil, fmt.Errorf("event %d: %w", e.Seq, err)
		}
		return yaml.Marshal(data.Definition)
	}
	return nil, nil
}
