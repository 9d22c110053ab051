package submission

import (
	"errors"
	"fmt"

	"github.com/deployster-go/deployster/build/definition"
	"github.com/deployster-go/deployster/build/plan"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// problems are what is wrong with a definition.
type problems struct {
	d       *definition.Definition // what could be read of it
	found   yamlfile.Report
	failed  map[yamlfile.Position]bool // where a value is wrong, about which nothing else is said
	faults  yamlfile.Report            // that only make packages unbuildable
	unnamed bool                       // a key is unknown that was probably meant to be "image"
}

// read reads a definition, and plans what can be read of it. Both are nil where there is no plan.
func (s *problems) read(r Request) (*definition.Definition, *plan.Plan) {
	s.failed = map[yamlfile.Position]bool{}
	d, err := definition.Parse(r.File, r.Text)
	var list *yamlfile.Error
	if errors.As(err, &list) {
		for _, p := range list.Problems {
			if p.Line > 0 {
				s.failed[p.Position] = true
			}
			s.unnamed = s.unnamed || p.Hint == "image"
			s.found.Add(p)
		}
	}
	if d == nil {
		return nil, nil
	}
	switch {
	case r.Converge > 0 && d.List:
		s.found.Add(yamlfile.Problem{Position: yamlfile.Position{File: "--converge"}, Message: r.File + " is a list of jobs, which are in no cycle"})
	case r.Converge > 0:
		d.Converge = r.Converge
	}
	touched, err := plan.Touched(d, r.Touched)
	if errors.As(err, &list) {
		for _, p := range list.Problems {
			p.File = "--touched"
			s.found.Add(p)
		}
		if len(touched) == 0 {
			return nil, nil // what is to be built is not known
		}
	}
	p, err := plan.Make(d, touched)
	if err != nil {
		s.found.Add(yamlfile.Problem{Position: yamlfile.Position{File: r.File}, Message: err.Error()})
		return nil, nil
	}
	return d, p
}

// report adds what is wrong with what somebody wrote. Any other error it returns.
func (s *problems) report(err error) error {
	var input *work.InputError
	if !errors.As(err, &input) {
		return err
	}
	var list *yamlfile.Error
	if !errors.As(input.Cause, &list) {
		s.found.Add(yamlfile.Problem{Message: input.Error()})
		return nil
	}
	for _, p := range list.Problems {
		s.found.Add(p)
	}
	return nil
}

// problem reports what is wrong with a value of a package, once where several share it.
func (s *problems) problem(at yamlfile.Position, pkg *definition.Package, key, format string, args ...any) {
	if s.failed[at] {
		return
	}
	s.failed[at] = true
	s.found.Add(yamlfile.Problem{Position: at, Path: s.pathOf(pkg, key), Message: fmt.Sprintf(format, args...)})
}

// fault notes what makes a package unbuildable. It is a problem where the definition is refused
// for another one: whoever mends that mends this in the same go.
func (s *problems) fault(at yamlfile.Position, pkg *definition.Package, key, format string, args ...any) {
	s.faults.Add(yamlfile.Problem{Position: at, Path: s.pathOf(pkg, key), Message: fmt.Sprintf(format, args...)})
}

// pathOf is how a problem names a value.
func (s *problems) pathOf(pkg *definition.Package, key string) string {
	name := "packages." + pkg.Name
	if s.d.List {
		name = "job " + pkg.Name
	}
	if key == "" {
		return name
	}
	return name + "." + key
}

// suppose plans what could be built if the packages could be that turned out to be unbuildable, for
// whatever else is wrong with it. It returns nil where that is nothing else than the plan, and
// where the definition is not refused.
func (s *collecting) suppose(p *plan.Plan) *plan.Plan {
	if s.found.Empty() {
		return nil
	}
	more := false
	for _, u := range p.Unbuildable {
		pkg := s.packages[u.Package]
		if u.Needs != "" || pkg.Unbuildable != "" {
			continue
		}
		if !s.d.List { // jobs that need each other have been reported
			s.fault(pkg.At, pkg, "", "it cannot be built: %s", u.Cause)
		}
		pkg.Released, more = "supposed", true
	}
	for _, pkg := range s.blamed {
		pkg.Unbuildable = ""
	}
	supposed, err := plan.Make(s.d, p.Touched)
	if !more || err != nil {
		return nil
	}
	return supposed
}

// refusal is all that is wrong with a definition; nil where it can be submitted.
func (s *problems) refusal() error {
	if s.found.Empty() {
		return nil
	}
	var faults *yamlfile.Error
	if errors.As(s.faults.Err(), &faults) {
		for _, fault := range faults.Problems {
			if !s.failed[fault.Position] {
				s.found.Add(fault)
			}
		}
	}
	return &work.InputError{Cause: s.found.Err()}
}
