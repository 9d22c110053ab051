package resource

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/namedfile"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/terraform"
	"github.com/deployster-go/deployster/runner/report"
)

// tfstate is a state of Terraform from which resources are adopted.
type tfstate struct {
	file  string
	known []terraform.Known
}

func readState(a *app.App, file string) (*tfstate, error) {
	in, name := io.Reader(a.In), "stdin"
	if file != "-" {
		text, err := namedfile.ReadRegular(file, terraform.MaxState)
		if err != nil {
			return nil, exit.Invalid(fmt.Errorf("reading the state of Terraform in %s: %w", file, err))
		}
		in, name = bytes.NewReader(text), file
	}
	known, err := terraform.ReadState(in)
	if err != nil {
		return nil, exit.Invalid(fmt.Errorf("reading the state of Terraform in %s: %w", name, err))
	}
	return &tfstate{name, known}, nil
}

// adoptions are the resources of a manifest that the state has, or those alone that arguments
// name, as RESOURCE or RESOURCE=ADDRESS. What of it is left over is noted.
func (s *tfstate) adoptions(m *manifest.Manifest, args []string) (list []report.Adoption, notes []string, err error) {
	taken := map[string]string{} // address → resource
	take := func(r adoptee, k terraform.Known) error {
		if other, twice := taken[k.Address]; twice {
			return exit.Invalid(fmt.Errorf("%s of the state cannot become both %s and %s", k.Address, other, r.name))
		}
		if slices.ContainsFunc(list, func(a report.Adoption) bool { return a.Resource == r.name }) {
			return exit.Invalid(fmt.Errorf("%s is given twice: it can become one resource of the state only", r.name))
		}
		taken[k.Address] = r.name
		keep, err := kept(k)
		if err != nil {
			return err
		}
		list = append(list, report.Adoption{Resource: r.name, Keep: keep, Secrets: k.Secrets, Alike: s.alike(k)})
		return nil
	}
	for _, arg := range args {
		r, k, err := s.named(m, arg)
		if err == nil {
			err = take(r, k)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if len(args) > 0 {
		return list, nil, nil
	}
	for _, r := range m.Resources {
		if r.Late != nil {
			continue // what it stands for is found out in the run
		}
		r := adoptee{r, r.Name}
		if k, there := s.of(r); there {
			if err := take(r, k); err != nil {
				return nil, nil, err
			}
		}
	}
	if len(list) == 0 {
		return nil, nil, exit.Invalid(fmt.Errorf("the manifest has no resource with the type and the name of one in the state in %s, which has %s; say which is which: RESOURCE=ADDRESS", s.file, s.addresses(taken)))
	}
	if len(taken) < len(s.known) {
		notes = append(notes, "also in the state, and not adopted: "+s.addresses(taken)+" (RESOURCE=ADDRESS adopts what has another name here)")
	}
	return list, notes, nil
}

// alike reports whether the state has another resource with the same attributes, as of times that are kept.
func (s *tfstate) alike(k terraform.Known) bool {
	return slices.ContainsFunc(s.known, func(other terraform.Known) bool {
		return other.Address != k.Address && other.Resource == k.Resource && bytes.Equal(other.Kept, k.Kept)
	})
}

// named is what an argument names.
func (s *tfstate) named(m *manifest.Manifest, arg string) (adoptee, terraform.Known, error) {
	name, address, given := strings.Cut(arg, "=")
	if key := strings.LastIndexByte(name, '['); key >= 0 && !strings.HasSuffix(name, "]") { // the = is within a key
		if end := strings.Index(arg, "]"); end >= 0 {
			name = arg[:end+1]
			address, given = strings.CutPrefix(arg[end+1:], "=")
		}
	}
	r, err := declared(m, name)
	if err != nil {
		return adoptee{}, terraform.Known{}, err
	}
	if !given {
		if k, there := s.of(r); there {
			return r, k, nil
		}
		return adoptee{}, terraform.Known{}, exit.Invalid(fmt.Errorf("the state in %s has no %s that is called %s; it has %s; say which it is: %s=ADDRESS", s.file, kindOf(r.Type), name, s.addresses(nil), name))
	}
	i := slices.IndexFunc(s.known, func(k terraform.Known) bool { return k.Address == address })
	if i < 0 {
		return adoptee{}, terraform.Known{}, exit.Invalid(fmt.Errorf("the state in %s has no managed resource at %s; it has %s", s.file, address, s.addresses(nil)))
	}
	return r, s.known[i], nil
}

// of is what the state has of a resource by its type and name.
func (s *tfstate) of(r adoptee) (terraform.Known, bool) {
	kind := kindOf(r.Type)
	i := slices.IndexFunc(s.known, func(k terraform.Known) bool {
		return k.Resource == kind && strings.ReplaceAll(k.Path, "-", "_") == strings.ReplaceAll(r.name, "-", "_")
	})
	if i < 0 {
		return terraform.Known{}, false
	}
	return s.known[i], true
}

// kindOf is the resource of a provider that a type is of, by the name of its image.
func kindOf(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	ref = ref[strings.LastIndexByte(ref, '/')+1:]
	ref, _, _ = strings.Cut(ref, ":")
	return ref
}

// addresses lists what the state has, but for what is taken.
func (s *tfstate) addresses(taken map[string]string) string {
	const most = 8
	var all []string
	for _, k := range s.known {
		if _, is := taken[k.Address]; !is {
			all = append(all, k.Address)
		}
	}
	switch more := len(all) - most; {
	case len(all) == 0:
		return "none"
	case more > 0:
		return strings.Join(all[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return phrase.List(all)
}

// kept is what a type would have kept of a resource.
func kept(k terraform.Known) (keep map[string]any, err error) {
	if k.Unusable != "" {
		return nil, exit.Invalid(fmt.Errorf("%s of the state cannot be adopted: %s", k.Address, k.Unusable))
	}
	if len(k.Kept) > protocol.MaxKeep {
		return nil, exit.Invalid(fmt.Errorf("%s has %d bytes in the state; at most %d are kept of a resource: leave it to Terraform", k.Address, len(k.Kept), protocol.MaxKeep))
	}
	decoder := json.NewDecoder(bytes.NewReader(k.Kept))
	decoder.UseNumber() // a number stays what it is, however large
	if err := decoder.Decode(&keep); err != nil {
		return nil, exit.Invalid(fmt.Errorf("the attributes of %s in the state cannot be read", k.Address))
	}
	return keep, nil
}
