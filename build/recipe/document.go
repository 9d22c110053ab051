package recipe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// PerDocument is how many recipes one document holds.
const PerDocument = 1000

// version is that of the form of documents.
const version = 1

type document struct {
	Version int      `json:"version"`
	From    int      `json:"from"` // index of the first
	Recipes []Recipe `json:"recipes"`
}

// Name is the name of the document, among what a group carries, that holds the recipe with
// an index. It begins with a slash, as no file of a workspace does.
func Name(index int) string { return "/recipes/" + strconv.Itoa(index/PerDocument) }

// Encode writes all recipes of a group as documents, by their names.
func Encode(all []Recipe) (map[string][]byte, error) {
	documents := map[string][]byte{}
	for from := 0; from < len(all); from += PerDocument {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		err := encoder.Encode(document{version, from, all[from:min(len(all), from+PerDocument)]})
		if err != nil {
			return nil, fmt.Errorf("recipes %d to %d: %w", from, min(len(all), from+PerDocument)-1, err)
		}
		documents[Name(from)] = out.Bytes()
	}
	return documents, nil
}

// Decode reads a document that Encode wrote: its recipes, and the index of the first.
func Decode(text []byte) (from int, recipes []Recipe, err error) {
	var d struct {
		Version int               `json:"version"`
		From    int               `json:"from"`
		Recipes []json.RawMessage `json:"recipes"` // many that say nothing would take much memory
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return 0, nil, fmt.Errorf("recipes: %w", err)
	}
	switch {
	case d.Version > version:
		return 0, nil, fmt.Errorf("recipes: they have the form %d, which this version does not know: use a newer one", d.Version)
	case d.Version < 1 || d.From < 0 || len(d.Recipes) > PerDocument:
		return 0, nil, fmt.Errorf("recipes: this is no document of them")
	}
	recipes = make([]Recipe, len(d.Recipes))
	for i, one := range d.Recipes {
		if err := json.Unmarshal(one, &recipes[i]); err != nil {
			return 0, nil, fmt.Errorf("recipes: %w", err)
		}
	}
	return d.From, recipes, nil
}

// At is the recipe with an index, of the document that Name says has it.
func At(text []byte, index int) (Recipe, error) {
	from, recipes, err := Decode(text)
	if err != nil {
		return Recipe{}, err
	}
	return Select(from, recipes, index)
}

// Select is the recipe with an index among those of a document that was decoded.
func Select(from int, recipes []Recipe, index int) (Recipe, error) {
	if index < from || index >= from+len(recipes) {
		return Recipe{}, fmt.Errorf("recipes: there is no recipe %d among %d to %d", index, from, from+len(recipes)-1)
	}
	return recipes[index-from], nil
}
