package definition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
)

// Reread reads a definition that came as JSON as a file is read: it refuses what no file could
// say. name is what its messages call it. What manifests carry stays as it came.
func (d *Definition) Reread(name string) (*Definition, error) {
	sent, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("writing the definition %s: %w", name, err)
	}
	var file struct {
		Name      string           `json:"pipeline"`
		Stages    []map[string]any `json:"stages"`
		Promotion map[string]any   `json:"promotion"`
	}
	decoder := json.NewDecoder(bytes.NewReader(sent))
	decoder.UseNumber()
	if err := decoder.Decode(&file); err != nil {
		return nil, fmt.Errorf("writing the definition %s: %w", name, err)
	}
	delete(file.Promotion, "variable")
	file.Promotion["revision"] = "task.vars." + d.Promotion.Variable
	for _, stage := range file.Stages {
		delete(stage, "verify_files")
		if calendar, has := stage["calendar"].(map[string]any); has {
			maps.Copy(stage, calendar)
		}
		delete(stage, "calendar")
		if targets, has := stage["targets"].(map[string]any); has {
			delete(targets, "manifest_files")
			maps.Copy(stage, targets)
			delete(stage, "environment")
		}
		delete(stage, "targets")
		if stage["objects"] != nil {
			delete(stage, "environment")
		}
		if pull, has := stage["pull_request"].(map[string]any); has && pull["provider"] == nil {
			pull["provider"] = NoProvider
		}
	}
	text, err := json.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("writing the definition %s: %w", name, err)
	}
	read, err := Parse(name, text)
	if err != nil {
		return nil, err
	}
	for i := range read.Stages {
		read.Stages[i].VerifyFiles = d.Stages[i].VerifyFiles
		if on := read.Stages[i].Targets; on != nil && d.Stages[i].Targets != nil {
			on.Files = d.Stages[i].Targets.Files
		}
	}
	return read, nil
}
