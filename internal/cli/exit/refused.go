package exit

import (
	"errors"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/pipeline"
)

// Refused makes wrong usage of an error that says that something does not exist.
func Refused(err error) error {
	for _, unknown := range []error{pipelines.ErrNoPipeline, pipeline.ErrUnknown, environments.ErrNoEnvironment, environment.ErrUnknown, query.ErrNotFound} {
		if errors.Is(err, unknown) {
			return &UsageError{err}
		}
	}
	return err
}
