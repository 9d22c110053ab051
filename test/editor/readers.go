package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"

	goccy "github.com/goccy/go-yaml"
	"go.yaml.in/yaml/v3"
	sigs "sigs.k8s.io/yaml"
)

// readers are how programs read files: Flux and Argo CD, readers of YAML 1.2, and Helm and kubectl.
var readers = []struct {
	name string
	read func(file []byte) ([]any, error)
}{
	{"yaml.v3", func(file []byte) ([]any, error) { return decoded(yaml.NewDecoder(bytes.NewReader(file)).Decode) }},
	{"YAML 1.2", func(file []byte) ([]any, error) { return decoded(goccy.NewDecoder(bytes.NewReader(file)).Decode) }},
	{"sigs.k8s.io/yaml", func(file []byte) ([]any, error) {
		var one any
		err := sigs.Unmarshal(file, &one)
		return []any{one}, err
	}},
}

// decoded reads the documents that are not empty.
func decoded(decode func(any) error) (all []any, err error) {
	for {
		var one any
		switch err := decode(&one); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		case one != nil:
			all = append(all, one)
		}
	}
}

// readings are what each reader reads of a file, nil if it cannot read it.
type readings [][]any

func readAll(file []byte) (all readings) {
	for _, reader := range readers {
		read, err := reader.read(file)
		if err != nil {
			read = nil
		}
		all = append(all, read)
	}
	return all
}

// differs returns what a reader reads of an edited file that is neither as before nor the value that
// was set, or "".
func (all readings) differs(after []byte, v scalar, to string) string {
	for i, before := range all {
		if before == nil || v.document >= len(before) || readers[i].name == "sigs.k8s.io/yaml" && v.document > 0 {
			continue
		}
		was, ok := at(before[v.document], v.steps)
		if !ok {
			continue // this reader reads a key as something else, such as on as true
		}
		name := readers[i].name
		read, err := readers[i].read(after)
		if err != nil || len(read) != len(before) {
			return fmt.Sprintf("%s reads it no more: %v", name, err)
		}
		now, ok := at(read[v.document], v.steps)
		if !ok || now != to {
			return fmt.Sprintf("%s reads %v (%T), not %s", name, now, now, to)
		}
		put(read[v.document], v.steps, was)
		if !reflect.DeepEqual(before, read) {
			return name + " reads something else differently"
		}
	}
	return ""
}

// at is the value to which steps lead.
func at(of any, steps []any) (any, bool) {
	for _, step := range steps {
		switch in := of.(type) {
		case map[string]any:
			key, _ := step.(string)
			value, ok := in[key]
			if !ok {
				return nil, false
			}
			of = value
		case []any:
			index, ok := step.(int)
			if !ok || index >= len(in) {
				return nil, false
			}
			of = in[index]
		default:
			return nil, false
		}
	}
	return of, true
}

// put replaces the value to which steps lead.
func put(of any, steps []any, value any) {
	in, _ := at(of, steps[:len(steps)-1])
	switch step := steps[len(steps)-1].(type) {
	case string:
		in.(map[string]any)[step] = value
	case int:
		in.([]any)[step] = value
	}
}
