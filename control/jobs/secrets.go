package jobs

import (
	"context"

	"github.com/deployster-go/deployster/runner/invoke"
)

// secrets are the values that a job is given and that nobody may read.
type secrets struct {
	values map[string]string // of variables, by name
	hidden *invoke.Secrets
}

// resolve reads the secrets of the recipe.
func (a *attempt) resolve(ctx context.Context) error {
	a.secret = secrets{hidden: &invoke.Secrets{}}
	if len(a.recipe.Secrets) == 0 {
		return nil
	}
	if a.Secrets == nil {
		return unbuildable("it has secrets, which cannot be resolved here")
	}
	values, err := a.Secrets(ctx, a.task.Carries, a.recipe)
	if err != nil {
		return unbuildable("its secrets: %v", err)
	}
	a.secret.values = values
	for _, value := range values {
		a.secret.hidden.Add(value, [][]string{{}})
	}
	return nil
}

func (s secrets) mask(text string) string {
	if s.hidden == nil {
		return text
	}
	return s.hidden.Mask(text)
}
