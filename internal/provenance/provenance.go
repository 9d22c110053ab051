// Package provenance says how an artifact came to be, in the form that the tools of supply
// chains read: a Statement of in-toto (version 1) with the predicate "Provenance" of SLSA
// (version 1), in an envelope that may be signed (DSSE).
//
// The types have the names and fields of these forms, as far as they are used here. Job is
// what the program knows, and makes the statement of it.
package provenance

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// What a statement and its parts are, as verifiers compare it.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://slsa.dev/provenance/v1"
	// BuildType names the meaning of the parameters; docs/artifacts.md has it.
	BuildType = "https://github.com/deployster-go/deployster/build/v1"
	// BuilderID names who did the work: this program, on a worker of whoever ran it.
	BuilderID = "https://github.com/deployster-go/deployster"
	// MediaType is that of a statement; as the type of what an envelope holds, too.
	MediaType = "application/vnd.in-toto+json"
)

// Statement is something said about subjects.
type Statement struct {
	Type          string               `json:"_type"`
	Subject       []ResourceDescriptor `json:"subject"`
	PredicateType string               `json:"predicateType"`
	Predicate     Predicate            `json:"predicate"`
}

// ResourceDescriptor is something that digests identify. It has a digest, a URI or a content.
type ResourceDescriptor struct {
	Name      string            `json:"name,omitempty"`
	URI       string            `json:"uri,omitempty"`
	Digest    map[string]string `json:"digest,omitempty"` // hexadecimal, by algorithm
	Content   []byte            `json:"content,omitempty"`
	MediaType string            `json:"mediaType,omitempty"`
}

// Predicate is how subjects were built.
type Predicate struct {
	BuildDefinition BuildDefinition `json:"buildDefinition"`
	RunDetails      RunDetails      `json:"runDetails"`
}

// BuildDefinition is all that went into a build.
type BuildDefinition struct {
	BuildType            string               `json:"buildType"`
	ExternalParameters   ExternalParameters   `json:"externalParameters"`
	InternalParameters   InternalParameters   `json:"internalParameters,omitzero"`
	ResolvedDependencies []ResourceDescriptor `json:"resolvedDependencies,omitempty"`
}

// ExternalParameters are what whoever submitted the group asked for.
type ExternalParameters struct {
	Group   string          `json:"group"`
	Job     int             `json:"job"`
	Package string          `json:"package"`
	Version string          `json:"version,omitempty"` // of the package
	Recipe  json.RawMessage `json:"recipe,omitempty"`
}

// InternalParameters are what the program chose.
type InternalParameters struct {
	Worker   string `json:"worker,omitempty"`
	Engine   string `json:"engine,omitempty"`
	Platform string `json:"platform,omitempty"`
	Inputs   string `json:"inputs,omitempty"`

	// WorkspaceCommit is what the workspace was checked out at. Its files may have been changed
	// since: it is a dependency only where the sources were compared with it, and are the same.
	WorkspaceCommit string `json:"workspaceCommit,omitempty"`
}

// RunDetails are one execution of a build.
type RunDetails struct {
	Builder    Builder              `json:"builder"`
	Metadata   Metadata             `json:"metadata"`
	Byproducts []ResourceDescriptor `json:"byproducts,omitempty"`
}

// Builder is who did it.
type Builder struct {
	ID      string            `json:"id"`
	Version map[string]string `json:"version,omitempty"`
}

// Metadata tells one execution from others.
type Metadata struct {
	InvocationID string     `json:"invocationId"`
	StartedOn    *time.Time `json:"startedOn,omitempty"`
	FinishedOn   *time.Time `json:"finishedOn,omitempty"`
}

// Job is a job that made an artifact.
type Job struct {
	Artifact string // sha256:HEX of the artifact

	Group   string // its id
	Number  int
	Attempt int
	Package string
	Version string // of the package
	Recipe  any    // what the group carries of it: no values of secrets; may be nil

	Worker   string
	Engine   string // name and version
	Platform string
	Inputs   string // hash of all that went into it

	Image    Material
	Sources  string     // digest of the artifact of its sources; "" without
	Uses     []Material // the artifacts that it could read
	Commit   string     // of Git, that the workspace was at, whose files may have been changed; "" where it was at none
	Source   Source     // the commit that the sources are of; zero where they are of none, were modified, or that is not known
	Metadata map[string]string

	Deployster        string // version of the program
	Started, Finished time.Time
}

// Source is a commit of Git whose content was read.
type Source struct {
	Repository string // URL; "" is not known
	Commit     string // "" is none
}

// Material is something that went into an artifact.
type Material struct {
	Name   string
	Digest string // sha256:HEX
}

// Statement says how the artifact of a job came to be.
func (j Job) Statement() (Statement, error) {
	s := Statement{Type: StatementType, PredicateType: PredicateType}
	subject, err := describe(Material{j.Package, j.Artifact})
	if err != nil {
		return s, fmt.Errorf("the provenance of job %d of %s: its artifact: %w", j.Number, j.Group, err)
	}
	s.Subject = []ResourceDescriptor{subject}
	materials, err := j.materials()
	if err != nil {
		return s, fmt.Errorf("the provenance of job %d of %s: %w", j.Number, j.Group, err)
	}
	asked := ExternalParameters{Group: j.Group, Job: j.Number, Package: j.Package, Version: j.Version}
	if j.Recipe != nil {
		if asked.Recipe, err = json.Marshal(j.Recipe); err != nil {
			return s, fmt.Errorf("the provenance of job %d of %s: its recipe: %w", j.Number, j.Group, err)
		}
	}
	s.Predicate = Predicate{
		BuildDefinition: BuildDefinition{
			BuildType: BuildType, ExternalParameters: asked,
			InternalParameters:   InternalParameters{Worker: j.Worker, Engine: j.Engine, Platform: j.Platform, Inputs: j.Inputs, WorkspaceCommit: j.Commit},
			ResolvedDependencies: materials,
		},
		RunDetails: RunDetails{
			Builder:  Builder{ID: BuilderID},
			Metadata: Metadata{InvocationID: j.Group + "/" + strconv.Itoa(j.Number) + "/" + strconv.Itoa(j.Attempt), StartedOn: moment(j.Started), FinishedOn: moment(j.Finished)},
		},
	}
	if j.Deployster != "" {
		s.Predicate.RunDetails.Builder.Version = map[string]string{"deployster": j.Deployster}
	}
	if len(j.Metadata) > 0 {
		text, err := canonical(j.Metadata)
		if err != nil {
			return s, fmt.Errorf("the provenance of job %d of %s: its metadata: %w", j.Number, j.Group, err)
		}
		s.Predicate.RunDetails.Byproducts = []ResourceDescriptor{{Name: "metadata", Content: text, MediaType: "application/json"}}
	}
	return s, s.Check()
}

// materials are all that went into an artifact.
func (j Job) materials() (all []ResourceDescriptor, err error) {
	add := func(prefix string, m Material) error {
		d, err := describe(m)
		if err != nil {
			return fmt.Errorf("%s %q: %w", prefix, m.Name, err)
		}
		d.Name = strings.TrimSuffix(prefix+" "+d.Name, " ")
		all = append(all, d)
		return nil
	}
	if j.Image != (Material{}) {
		if err := add("image", j.Image); err != nil {
			return nil, err
		}
	}
	if j.Sources != "" {
		if err := add("sources", Material{Digest: j.Sources}); err != nil {
			return nil, err
		}
		if j.Source.Commit != "" {
			commit, err := j.Source.describe()
			if err != nil {
				return nil, err
			}
			all = append(all, commit)
		}
	}
	for _, use := range j.Uses {
		if err := add("package", use); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// describe is the descriptor of a commit.
func (s Source) describe() (ResourceDescriptor, error) {
	if sum, err := hex.DecodeString(s.Commit); err != nil || len(sum) != 20 && len(sum) != 32 || strings.ToLower(s.Commit) != s.Commit {
		return ResourceDescriptor{}, fmt.Errorf("%.90q is no commit of Git: it is to be 40 or 64 hexadecimal digits", s.Commit)
	}
	d := ResourceDescriptor{Name: "commit", Digest: map[string]string{"gitCommit": s.Commit}}
	if s.Repository != "" {
		d.URI = "git+" + s.Repository
	}
	return d, nil
}

// describe is the descriptor of something with a digest.
func describe(m Material) (ResourceDescriptor, error) {
	algorithm, text, _ := strings.Cut(m.Digest, ":")
	if sum, err := hex.DecodeString(text); err != nil || algorithm != "sha256" || len(sum) != 32 || strings.ToLower(text) != text {
		return ResourceDescriptor{}, fmt.Errorf("%.90q is no digest: it is to be sha256: and 64 hexadecimal digits", m.Digest)
	}
	return ResourceDescriptor{Name: m.Name, Digest: map[string]string{"sha256": text}}, nil
}

func moment(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC().Truncate(time.Second) // as SLSA writes them
	return &at
}

// Check reports what a statement lacks that the forms require.
func (s Statement) Check() error {
	var lacks []error
	require := func(is bool, what string) {
		if !is {
			lacks = append(lacks, errors.New(what))
		}
	}
	require(s.Type == StatementType, "_type must be "+StatementType)
	require(s.PredicateType == PredicateType, "predicateType must be "+PredicateType)
	require(len(s.Subject) > 0, "there is no subject")
	for i, subject := range s.Subject {
		require(len(subject.Digest) > 0, fmt.Sprintf("subject %d has no digest", i))
	}
	definition, run := s.Predicate.BuildDefinition, s.Predicate.RunDetails
	require(definition.BuildType != "", "buildType is missing")
	require(run.Builder.ID != "", "builder.id is missing")
	for i, d := range definition.ResolvedDependencies {
		require(len(d.Digest) > 0 || d.URI != "" || len(d.Content) > 0, fmt.Sprintf("resolved dependency %d has neither digest nor URI nor content", i))
	}
	if len(lacks) > 0 {
		return fmt.Errorf("this is no provenance: %w", errors.Join(lacks...))
	}
	return nil
}

// JSON is the text of a statement: the same one has the same text, with sorted keys and
// without space.
func (s Statement) JSON() ([]byte, error) {
	text, err := canonical(s)
	if err != nil {
		return nil, fmt.Errorf("writing a statement of provenance: %w", err)
	}
	return text, nil
}

// canonical writes a value with sorted keys and without space.
func canonical(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber() // numbers stay as they are
	var plain any
	if err := in.Decode(&plain); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(plain); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// maxStatement bounds what is read, in bytes.
const maxStatement = 16 << 20

// Decode reads a statement of provenance, whoever made it. Of the parameters it keeps those
// that are known here.
func Decode(text []byte) (Statement, error) {
	var s Statement
	if len(text) > maxStatement {
		return s, fmt.Errorf("a statement of provenance has at most %d bytes, this one %d", maxStatement, len(text))
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return Statement{}, fmt.Errorf("reading a statement of provenance: %w", err)
	}
	if err := s.Check(); err != nil {
		return Statement{}, err
	}
	return s, nil
}
