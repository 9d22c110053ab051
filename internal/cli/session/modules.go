package session

import (
	"context"
	"path/filepath"

	"github.com/deployster-go/deployster/control/locked"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/lockfile"
	"github.com/deployster-go/deployster/internal/modulesource"
	"github.com/deployster-go/deployster/internal/usercache"
)

// ModuleCache is where the files of modules that are elsewhere are kept for all workspaces of the user.
func ModuleCache() (*modulesource.Cache, error) {
	dir, err := usercache.Dir()
	if err != nil {
		return nil, err
	}
	return modulesource.In(filepath.Join(dir, "modules")), nil
}

// placeModules has the workspace hold the modules that it locks, before manifests are read that may call them.
func placeModules(a *app.App) error {
	lock, err := lockfile.Read(a.Workspace)
	if err != nil {
		return exit.Invalid(err)
	}
	return locked.Place(context.Background(), a.Workspace, lock, ModuleCache)
}
