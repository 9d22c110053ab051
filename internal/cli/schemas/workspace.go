package schemas

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/atomicfile"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/inits"
	"github.com/deployster-go/deployster/schema"
)

// file is where the schema of a workspace is written, below it.
const file = engine.StateDir + "/manifest.schema.json"

// used is where a type is first used.
type used struct {
	manifest string
	at       manifest.Position
}

// workspace prints or writes the schema of manifests with what their types accept.
func workspace(a *app.App, manifests []string, write bool) error {
	uses, err := typesOf(manifests, expression.New(a.Workspace))
	if err != nil {
		return err
	}
	cache := engines.InitCache(a, engines.Flags{})
	text, notes, err := withTypes(uses, func(ref string) (inits.Type, bool) { return inits.Last(cache, a.Version, ref) })
	if err != nil {
		return err
	}
	for _, text := range notes {
		fmt.Fprintf(a.Err, "note: %s\n", view.Clean(text))
	}
	if write {
		if err := os.MkdirAll(filepath.Join(a.Workspace, engine.StateDir), 0o700); err != nil {
			return fmt.Errorf("writing the schema: %w", err)
		}
		if err := atomicfile.WriteFile(filepath.Join(a.Workspace, file), text); err != nil {
			return fmt.Errorf("writing the schema: %w", err)
		}
		return a.Say(map[string]any{"file": file, "types": slices.Sorted(maps.Keys(uses))}, "wrote %s", file)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); a.Terminal(a.Out) {
			line = terminal.Scrub(line)
		}
		if err := a.Printf("%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

// withTypes is the schema with what ships and with the used types, as far as it is known what
// these answered; notes say of which it is not.
func withTypes(uses map[string]used, answered func(ref string) (inits.Type, bool)) (text []byte, notes []string, err error) {
	types := map[string]json.RawMessage{}
	for _, name := range shipped.Names() {
		t, _ := shipped.Lookup(name)
		types[shipped.Prefix+name] = t.Schema
	}
	note := func(name, format string, args ...any) {
		notes = append(notes, uses[name].at.String()+": "+fmt.Sprintf(format, args...))
	}
	for _, name := range slices.Sorted(maps.Keys(uses)) {
		if _, ships := types[name]; ships {
			continue
		}
		answer, known := answered(name)
		switch {
		case !known:
			note(name, "what %s accepts is not known: deployster validate --types %s asks it", name, output.ShellWord(output.Operand(uses[name].manifest)))
		case len(answer.ConfigSchema) > 0:
			types[name] = answer.ConfigSchema
		}
	}
	text, left, err := schema.ForEditors(types)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		note(name, "the config_schema of %s is left out: %v", name, left[name])
	}
	return text, notes, nil
}

// typesOf are the types in manifests; without any, in those of the YAML files of this
// directory that are manifests.
func typesOf(manifests []string, evaluator *expression.Evaluator) (map[string]used, error) {
	named := len(manifests) > 0
	if !named {
		var err error
		if manifests, err = yamlFiles(); err != nil {
			return nil, err
		}
	}
	uses := map[string]used{}
	for _, path := range manifests {
		sources, err := manifest.ReadFiles([]string{path})
		if err == nil {
			err = add(uses, sources[0], evaluator)
		}
		if err != nil && named {
			return nil, exit.Invalid(err)
		}
	}
	return uses, nil
}

// add adds the types of a manifest, and of the modules of it that are here.
func add(uses map[string]used, source manifest.Source, evaluator *expression.Evaluator) error {
	outline, err := manifest.Outline(source, evaluator)
	if err != nil {
		return err
	}
	for _, r := range outline.Resources {
		if _, known := uses[r.Type]; !known {
			uses[r.Type] = used{source.Name, r.Position}
		}
	}
	return nil
}

// yamlFiles are those of this directory.
func yamlFiles() ([]string, error) {
	entries, err := os.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("looking for manifests: %w", err)
	}
	var names []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); e.Type().IsRegular() && (ext == ".yaml" || ext == ".yml") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
