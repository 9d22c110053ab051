package exit

import (
	"errors"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/pipeline"
)

// Refused makes wrong usage of what names nothing that there is.
func Refused(err error) error {
	for _, unknown := range []error{pipelines.ErrNoPipeline, pipeline.ErrUnknown, environments.ErrNoEnvironment, environment.ErrUnknown} {
		if errors.Is(err, unknown) {
			return &UsageError{err}
		}
	}
	return err
}
