package build

import (
	"context"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/provenance"
)

// statements keeps how artifacts were made, as objects beside the log, and attaches that to
// what is pushed.
type statements struct {
	objects objects.Store
	version string          // of the program
	key     *provenance.Key // signs what is attached; nil: it is not signed
}

// newStatements reads the key, if there is one, before anything is built.
func newStatements(kept objects.Store, version, keyFile string) (*statements, error) {
	s := &statements{objects: kept, version: version}
	if keyFile == "" {
		return s, nil
	}
	key, err := provenance.ReadKey(keyFile)
	if err != nil {
		return nil, exit.Usage("--sign-key: %v", err)
	}
	s.key = &key
	return s, nil
}

// keep stores the statement of an artifact, and returns by which hash.
func (s *statements) keep(_ context.Context, made jobs.Made) (hash string, err error) {
	task := made.Task
	job := provenance.Job{
		Artifact: made.Artifact.Digest,
		Group:    task.Group, Number: task.Job, Attempt: task.Attempt, Package: task.Package, Version: task.Version,
		Recipe: made.Recipe, Worker: task.Worker, Engine: made.Engine, Inputs: task.Inputs,
		Sources: made.Recipe.Artifact, Commit: task.Commit, Metadata: made.Metadata,
		Deployster: s.version, Started: made.Began, Finished: made.End,
	}
	if source := task.Source; source != nil && source.Exact {
		job.Source = provenance.Source{Repository: source.Repository, Commit: source.Commit}
	}
	if made.Image.OS != "" {
		job.Platform = made.Image.OS + "/" + made.Image.Arch
	}
	for _, digest := range []string{made.Image.Digest, made.Image.ID} { // that of a registry, if it was ever in one
		if strings.HasPrefix(digest, "sha256:") {
			job.Image = provenance.Material{Name: made.Recipe.Image.Image, Digest: digest}
			break
		}
	}
	for _, use := range task.Uses {
		if use.Artifact != "" {
			job.Uses = append(job.Uses, provenance.Material{Name: use.Package, Digest: use.Artifact})
		}
	}
	statement, err := job.Statement()
	if err != nil {
		return "", err
	}
	text, err := statement.JSON()
	if err != nil {
		return "", err
	}
	return s.objects.Keep(text)
}

// attach puts a statement beside an artifact in a registry.
func (s *statements) attach(ctx context.Context, reference, hash string) error {
	text, err := s.objects.Load(hash)
	if err != nil {
		return fmt.Errorf("how it was made: %w", err)
	}
	a := artifacts.Attestation{MediaType: provenance.MediaType, PredicateType: provenance.PredicateType, Content: text}
	if s.key != nil {
		statement, err := provenance.Decode(text)
		if err != nil {
			return err
		}
		if a.Content, err = statement.Envelope(ctx, *s.key); err != nil {
			return err
		}
		a.MediaType = artifacts.EnvelopeType
	}
	_, err = artifacts.Attach(ctx, reference, a)
	return err
}
