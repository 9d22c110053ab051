package definition

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/internal/pullrequest/address"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// Where several stages are declared in one repository, the commit that an object runs says nothing
// about its stage: each merge moves all of them. What counts there is the value that a file of the
// stage has at that commit.

var sourceFields = []string{"repository", "file", "value", "part", "user", "token_file", "token_env"}

// readSource reads where the objects of a stage are declared.
func readSource(n *yamlfile.Node) *PullRequest {
	fields, ok := n.Fields("a source", sourceFields...)
	if !ok {
		return nil
	}
	of := &PullRequest{}
	readPlace(n, fields, of)
	readValues(n, fields, of)
	readToken(n, fields, of)
	return of
}

// ReadsSource is where the value is that is the revision of objects, nil where none needs it.
func (s *Stage) ReadsSource() *PullRequest {
	if !slices.ContainsFunc(s.Objects, func(o object.Object) bool { return o.Part == object.Path }) {
		return nil
	}
	if s.Source != nil {
		return s.Source
	}
	return s.PullRequest
}

// SecretFiles are those of where the stage proposes, and of where its objects are declared; the keys are
// those of the stage.
func (s *Stage) SecretFiles() (all []SecretFile) {
	for key, of := range map[string]*PullRequest{"pull_request.": s.PullRequest, "source.": s.Source} {
		if of == nil {
			continue
		}
		for _, f := range of.SecretFiles() {
			f.Key = key + f.Key
			all = append(all, f)
		}
	}
	return all
}

// needsSource refuses objects whose revision is a value that nothing says where to read.
func (p *parser) needsSource(n *yamlfile.Node, fields map[string]*yamlfile.Node, s *Stage) {
	reads := slices.ContainsFunc(s.Objects, func(o object.Object) bool { return o.Part == object.Path })
	switch at := fields["source"]; {
	case at != nil && !reads:
		at.FailName("is where the value of objects with part: path is, and the stage has none")
	case at == nil && reads && s.PullRequest == nil:
		n.Fail("part: path is the value that a file has at the commit of the object: write source: {repository: …, file: …, value: …}")
	}
}

// Warnings are what is allowed in the definition, and hardly what is meant.
func (d *Definition) Warnings() (all []string) {
	first := map[string]string{} // stage by repository
	for i := range d.Stages {
		s := &d.Stages[i]
		of := s.Source
		if of == nil {
			of = s.PullRequest
		}
		if of == nil || !slices.ContainsFunc(s.Objects, func(o object.Object) bool { return o.RunsCommits() }) {
			continue
		}
		repository := address.Canonical(of.Repository)
		if other, is := first[repository]; is {
			all = append(all, fmt.Sprintf("stages %s and %s are in one repository, and their objects run its commits: a merge for one of them is a new revision of both. Write part: path at the objects, and the revision is the value that the file of the stage has", other, s.Name))
			continue
		}
		first[repository] = s.Name
	}
	return all
}
