package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/artifacts"
)

// Where a container finds what it is given, whatever user it runs as.
const (
	targetRoot         = "/var/lib/deployster/"
	targetSources      = targetRoot + "sources"
	targetOut          = targetRoot + "out"
	targetDependencies = targetRoot + "dependencies"
	targetArtifacts    = targetRoot + "artifacts"
	targetJob          = targetRoot + "job.json"
	targetMetadata     = targetRoot + "metadata"
)

// The entries of the directory of an attempt.
const (
	outName      = "out"
	jobName      = "job.json"
	metadataName = "metadata"
)

// mounts are what the container sees of this machine.
func (a *attempt) mounts(ctx context.Context) ([]engine.Mount, error) {
	all := []engine.Mount{
		{Source: filepath.Join(a.dir, outName), Target: targetOut},
		{Source: filepath.Join(a.dir, metadataName), Target: targetMetadata},
		{Source: filepath.Join(a.dir, jobName), Target: targetJob, ReadOnly: true},
	}
	uses, err := a.uses(ctx)
	if err != nil {
		return nil, err
	}
	all = append(all, uses...)
	sources := a.emptyDir()
	if digest := a.recipe.Artifact; digest != "" {
		if sources, err = a.Artifacts.Directory(ctx, digest); spoiled(err) {
			return nil, unbuildable("its sources: %v; restore it, or submit the group again", err)
		} else if err != nil {
			return nil, fmt.Errorf("its sources: %w", err)
		}
	}
	all = append(all, engine.Mount{Source: sources, Target: targetSources, ReadOnly: true})
	finder := engine.Finder{Hidden: filepath.Join(a.Workspace, engine.StateDir)}
	for _, p := range a.recipe.Plugs {
		if !p.ReadOnly {
			finder.Written = append(finder.Written, p.Path)
		}
	}
	for _, p := range a.recipe.Plugs {
		if _, err := os.Stat(p.Path); err != nil {
			return nil, unbuildable("its plug %s: %v; make it, or submit the group without it", p.Path, err)
		}
		// What holds the state shows it empty, see spec; a part of it would be shown as it is.
		pinned, err := finder.Pin([]engine.Mount{{Source: p.Path, Target: p.ContainerPath, ReadOnly: p.ReadOnly}})
		var link *engine.LinkError
		switch {
		case errors.Is(err, engine.ErrHidden):
			return nil, unbuildable("no job may see what is in %s: its plug %s leads there; submit the group with another", engine.StateDir, p.Path)
		case errors.As(err, &link):
			return nil, unbuildable("its plug %s: %v; submit the group with the path that it leads to", p.Path, err)
		case err != nil:
			return nil, fmt.Errorf("its plug %s: %w", p.Path, err)
		}
		all = append(all, pinned...)
	}
	if err := a.comparePlugs(ctx); err != nil {
		return nil, err
	}
	return all, nil
}

// uses are the artifacts that the job uses, each at its digest, and those that it needs
// directly at their names.
func (a *attempt) uses(ctx context.Context) (all []engine.Mount, err error) {
	var lost spoiledError
	at := map[string]string{} // directories, by digest
	direct := false
	for _, use := range a.task.Uses {
		if use.Artifact == "" {
			continue // it is in the image
		}
		dir, known := at[use.Artifact]
		if !known {
			dir, err = a.Artifacts.Directory(ctx, use.Artifact)
			switch {
			case spoiled(err) && use.Job > 0:
				lost.digests = append(lost.digests, use.Artifact)
				lost.cause = strings.TrimPrefix(fmt.Sprintf("%s; %s, which job %d built: %v", lost.cause, use.Package, use.Job, err), "; ")
			case spoiled(err):
				return nil, unbuildable("%s, which was released: %v; restore it, or submit the group again", use.Package, err)
			case err != nil:
				return nil, fmt.Errorf("%s: %w", use.Package, err)
			}
			at[use.Artifact] = dir
			all = append(all, engine.Mount{Source: dir, Target: artifactTarget(use.Artifact), ReadOnly: true})
		}
		if use.Direct {
			if !filepath.IsLocal(use.Package) {
				return nil, unbuildable("it needs %q, which is no name of a package", use.Package)
			}
			direct = true
			all = append(all, engine.Mount{Source: dir, Target: path.Join(targetDependencies, use.Package), ReadOnly: true})
		}
	}
	if len(lost.digests) > 0 {
		return nil, &lost
	}
	empty := a.emptyDir()
	if !direct {
		all = append(all, engine.Mount{Source: empty, Target: targetDependencies, ReadOnly: true})
	}
	if len(at) == 0 {
		all = append(all, engine.Mount{Source: empty, Target: targetArtifacts, ReadOnly: true})
	}
	return all, nil
}

// spoiled reports whether an artifact is not there as it was made.
func spoiled(err error) bool {
	return errors.Is(err, artifacts.ErrMissing) || errors.Is(err, artifacts.ErrAltered)
}

func artifactTarget(digest string) string {
	return path.Join(targetArtifacts, strings.TrimPrefix(digest, "sha256:"))
}

// jobFile is what a job is told about itself.
type jobFile struct {
	Version  int       `json:"version"`
	Group    string    `json:"group"`
	Job      int       `json:"job"`
	Package  string    `json:"package"`
	Release  string    `json:"release,omitempty"`
	Pass     int       `json:"pass,omitempty"`
	Platform string    `json:"platform,omitempty"`
	Uses     []useFile `json:"uses"`
}

type useFile struct {
	Package  string `json:"package"`
	Artifact string `json:"artifact,omitempty"` // "" is in the image
	Path     string `json:"path,omitempty"`
	Job      int    `json:"job,omitempty"`
	Direct   bool   `json:"direct,omitempty"`
	Run      bool   `json:"run,omitempty"`
}

func encodeJob(t build.Task) ([]byte, error) {
	f := jobFile{
		Version: 1, Group: t.Group, Job: t.Job, Package: t.Package, Release: t.Version, Pass: t.Pass, Platform: t.Place.Platform, Uses: []useFile{},
	}
	for _, u := range t.Uses {
		use := useFile{Package: u.Package, Artifact: u.Artifact, Job: u.Job, Direct: u.Direct, Run: u.Run}
		if u.Artifact != "" {
			use.Path = artifactTarget(u.Artifact)
		}
		f.Uses = append(f.Uses, use)
	}
	text, err := json.MarshalIndent(f, "", "  ")
	return append(text, '\n'), err
}

// prepare makes the directory of the attempt.
func (a *attempt) prepare() error {
	text, err := encodeJob(a.task)
	if err != nil {
		return err
	}
	out := filepath.Join(a.dir, outName)
	if err := os.MkdirAll(out, 0o700); err != nil {
		return err
	}
	// The parents keep others of this machine out.
	if err := os.Chmod(out, 0o777); err != nil { //nolint:gosec // as above, whatever user the job runs as
		return err
	}
	if err := a.makeEmpty(); err != nil {
		return err
	}
	for name, f := range map[string]struct {
		text []byte
		mode os.FileMode
	}{jobName: {text, 0o644}, metadataName: {nil, 0o666}} {
		file := filepath.Join(a.dir, name)
		if err := errors.Join(os.WriteFile(file, f.text, 0o600), os.Chmod(file, f.mode)); err != nil {
			return err
		}
	}
	return nil
}

// emptyDir is what containers see in the place of sources and dependencies that they have not.
// All see the same, for none may write to it. No group has such a name, so that no log is in it.
func (j *Jobs) emptyDir() string { return filepath.Join(j.dir(), "~empty") }

func (j *Jobs) makeEmpty() error {
	if info, err := os.Stat(j.emptyDir()); err == nil && info.Mode().Perm() == 0o755 {
		return nil
	}
	if err := os.MkdirAll(j.emptyDir(), 0o700); err != nil {
		return err
	}
	return os.Chmod(j.emptyDir(), 0o755) //nolint:gosec // for whatever user a job runs as
}

// env are the variables of the container.
func (a *attempt) env() []string {
	all := map[string]string{}
	for name, value := range a.recipe.Env {
		all[name] = value
	}
	for name, value := range a.secret.values {
		all[name] = value
	}
	for name, value := range map[string]string{"OUT": targetOut, "DEPENDENCIES": targetDependencies, "JOB": targetJob, "METADATA": targetMetadata} {
		all["DEPLOYSTER_"+name] = value
	}
	var list []string
	for name, value := range all {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}
