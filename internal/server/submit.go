package server

import (
	"context"
	"errors"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/control/submitted"
	"github.com/deployster-go/deployster/deploylog"
)

// submit has a group queued that was collected elsewhere, for the workers here.
func (s *Server) submit(ctx context.Context, c build.Submit) ([]deploylog.Event, error) {
	err := s.checker().Complete(ctx, &c)
	var invalid *submitted.InvalidError
	if errors.As(err, &invalid) {
		return nil, because(huma.Error422UnprocessableEntity(err.Error()), err)
	}
	if err != nil {
		return nil, err
	}
	return s.builds.Command(ctx, c)
}
