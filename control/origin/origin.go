// Package origin names the files from which a revision has its variables, so that they are
// found again wherever the revision is applied: those of the workspace by their paths below
// it, and those of its user by their paths below the home directory.
package origin

import (
	"os"
	"path/filepath"
	"strings"
)

// Roots are the directories below which files are named. All are absolute; "" is none.
type Roots struct {
	Workspace string
	Home      string
	User      string // where users configure Deployster
}

// Place is where a file is that has a name.
func (r Roots) Place(file string) string {
	rest, ofHome := strings.CutPrefix(file, "~/")
	switch {
	case ofHome:
		return filepath.Join(r.Home, filepath.FromSlash(rest))
	case filepath.IsAbs(file):
		return file
	default:
		return filepath.Join(r.Workspace, filepath.FromSlash(file))
	}
}

// Name is how a revision names a file of variables, and whether that is its user's, and
// not the project's: it lies outside of the workspace, also by a link, or where users
// configure Deployster. Of one that can be read only once nobody knows from where its writer has
// it: its name is its path.
func (r Roots) Name(file string, again bool) (name string, outside bool, err error) {
	name, err = filepath.Abs(file)
	if err != nil {
		return "", false, err
	}
	if !again {
		return name, true, nil
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", false, err
	}
	workspace, err := filepath.EvalSymlinks(r.Workspace)
	if err != nil {
		return "", false, err
	}
	_, inside := within(workspace, real)
	_, ofUser := within(r.User, name)
	if below, is := within(r.Workspace, name); is && !ofUser {
		return below, !inside, nil
	}
	if below, is := within(r.Home, name); is {
		return "~/" + below, true, nil
	}
	return name, true, nil
}

// within is the path of a file below a directory, if it is there. Nothing is below "".
func within(dir, file string) (below string, is bool) {
	below, err := filepath.Rel(dir, file)
	return filepath.ToSlash(below), err == nil && dir != "" && filepath.IsLocal(below)
}

// Again reports whether a file of variables can be read again: a pipe, such as that of
// <(command), holds what was written to it once, and waits for more. What cannot be found is
// left to whoever reads it to say.
func Again(file string) bool {
	info, err := os.Stat(file)
	return err != nil || info.Mode().IsRegular()
}
