package submission

import (
	"encoding/json"
	"fmt"

	"github.com/deployster-go/deployster/build/recipe"
)

// recipeSet holds recipes, each once.
type recipeSet struct {
	all   []recipe.Recipe
	index map[string]int
	of    map[recipeKey]int
}

// recipeKey is a recipe at a place, where its image has a content.
type recipeKey struct {
	of *recipe.Recipe
	at *place
}

// add adds a recipe with the content that its image has at a place, and returns its index.
func (s *recipeSet) add(of *recipe.Recipe, at *place) (int, recipe.Recipe, error) {
	if i, known := s.of[recipeKey{of, at}]; known {
		return i, s.all[i], nil
	}
	r := *of
	r.Image = at.images[r.Image.Image].Image
	text, err := json.Marshal(r)
	if err != nil {
		return 0, r, fmt.Errorf("recipe: %w", err)
	}
	i, known := s.index[string(text)]
	if !known {
		i = len(s.all)
		s.index[string(text)] = i
		s.all = append(s.all, r)
	}
	s.of[recipeKey{of, at}] = i
	return i, s.all[i], nil
}
