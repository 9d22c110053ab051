package authoring

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// ReadConfig reads a configuration from a file: JSON when its name ends so,
// else YAML. Integers stay integers.
func ReadConfig(path string) (map[string]any, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	parse := parseYAML
	if filepath.Ext(path) == ".json" {
		parse = parseJSON
	}
	config, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	return config, nil
}

func parseJSON(data []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return nil, fmt.Errorf("it must be one JSON object: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after the JSON object")
	}
	config, ok := document.(map[string]any)
	if !ok {
		return nil, errors.New("it must be a JSON object, such as {\"path\": \"hello.txt\"}")
	}
	return config, nil
}

func parseYAML(data []byte) (map[string]any, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	datesAsText(&document)
	var config any
	if err := document.Decode(&config); err != nil {
		return nil, err
	}
	// By way of JSON, which has what a configuration can have.
	text, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("it has something that JSON cannot express (a key must be text): %w", err)
	}
	if _, ok := config.(map[string]any); !ok {
		return nil, errors.New("it must be a mapping, such as path: hello.txt")
	}
	return parseJSON(text)
}

// datesAsText keeps what looks like a date as it is written, as in a manifest.
func datesAsText(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, child := range n.Content {
		datesAsText(child)
	}
}
