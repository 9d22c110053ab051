package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/scope"
)

// A viewer of some pipelines and environments reads these alone. An operation that names one says so by its Kind;
// one of anyKind leaves out what the caller may not read; every other one is for those who read everything.

// checkTarget refuses a target whose events the caller may not read.
func checkTarget(ctx context.Context, target string) error {
	if who := identity.Of(ctx); !scope.Target(who, deploylog.Target(target)) {
		return huma.Error403Forbidden("you may not do this: you read " + who.Reads())
	}
	return nil
}

// hidden is an answer to a caller who may not read everything: what there is instead of what is missing is not said.
func hidden(ctx context.Context, said huma.StatusError) error {
	if said.GetStatus() == http.StatusNotFound && !identity.Of(ctx).ReadsAll() {
		return huma.Error404NotFound("there is nothing of this name that you may read: you read " + identity.Of(ctx).Reads())
	}
	return said
}
