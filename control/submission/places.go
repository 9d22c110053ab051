package submission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/plan"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/inventory"
)

// The bounds of asking workers.
const (
	askTimeout   = 30 * time.Second // all of them together
	mostAsked    = 16               // that do not answer, for one place
	mostReasons  = 3                // in a warning
	imageTimeout = 10 * time.Minute // to get an image
)

// place is where jobs may be done, with the contents of their images there.
type place struct {
	record.Place
	at     yamlfile.Position // where the definition says so, if it does
	hosts  []inventory.Host  // that may serve it, as far as is known
	among  int               // how many hosts its query selects
	images map[string]Pinned // by name

	worker  string // that answers; "" is none
	asked   bool
	why     []error  // why workers do not serve it
	silent  int      // how many of them did not answer
	missing []string // images that are not pinned because no worker has its platform
}

// fleet is the workers that there are.
type fleet struct {
	Workers
	hosts  []inventory.Host
	err    error // why it is not known which there are
	looked map[string]looked
	left   time.Duration
}

type looked struct {
	platforms []string
	err       error
}

// look asks a worker for its platforms, once.
func (f *fleet) look(ctx context.Context, name string) ([]string, error) {
	if known, is := f.looked[name]; is {
		return known.platforms, known.err
	}
	if f.left <= 0 {
		return nil, fmt.Errorf("worker %s: there was no time left to ask it", name)
	}
	began := time.Now()
	asking, cancel := context.WithTimeoutCause(ctx, f.left, fmt.Errorf("no answer within %s", askTimeout))
	defer cancel()
	platforms, err := f.Look(asking, name)
	f.left -= time.Since(began)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f.looked[name] = looked{platforms, err}
	return platforms, err
}

// choosePlaces finds out where the jobs may be done.
func (s *collecting) choosePlaces(p *plan.Plan) error {
	f := &fleet{Workers: s.Workers, looked: map[string]looked{}, left: askTimeout}
	f.hosts, f.err = s.Workers.Workers()
	s.fleet = f
	known := map[record.Place]int{}
	for _, j := range p.Jobs {
		of := s.jobs[j.Package]
		target, workers := of.pkg.Job.Target, of.pkg.Job.Workers
		if s.failed[workers.At] {
			of.place = nowhere
			continue
		}
		key := record.Place{Platform: target.Text, Workers: workers.Text}
		i, is := known[key]
		if !is {
			at := workers.At
			switch {
			case s.failed[target.At]:
				at = target.At
			case workers.Text == "":
				at = of.pkg.At
			}
			chosen, err := s.choose(key, at)
			if err != nil {
				return err
			}
			if i = slices.IndexFunc(s.places, func(p *place) bool { return p.Place == chosen.Place }); i < 0 {
				i = len(s.places)
				s.places = append(s.places, chosen)
			}
			known[key] = i
		}
		of.place = i
	}
	return nil
}

// nowhere is the place of jobs whose workers are not known.
const nowhere = -1

// choose finds out which workers may serve a place. Where it has no platform it has the one
// that its workers have.
func (s *collecting) choose(key record.Place, at yamlfile.Position) (*place, error) {
	p := &place{Place: key, at: at, images: map[string]Pinned{}}
	var selected []inventory.Host
	q := inventory.Query{}
	if key.Workers != "" {
		q, _ = inventory.ParseQuery(key.Workers) // which the definition has been checked for
	}
	for _, h := range s.fleet.hosts {
		if key.Workers == "" || q.Match(h) {
			selected = append(selected, h)
		}
	}
	p.among = len(selected)
	if key.Platform == "" {
		if err := s.inferPlatform(p, selected); err != nil {
			return nil, err
		}
	}
	for _, h := range selected {
		if len(h.Platforms) == 0 || serves(h.Platforms, p.Platform) {
			p.hosts = append(p.hosts, h)
		}
	}
	return p, nil
}

// inferPlatform takes the platform that all workers have which say so.
func (s *collecting) inferPlatform(p *place, selected []inventory.Host) error {
	var all []string
	failed := 0
	for _, h := range selected {
		platforms := h.Platforms
		if len(platforms) == 0 && failed < mostAsked {
			var err error
			if platforms, err = s.fleet.look(s.ctx, h.Name); err != nil {
				failed++
			}
			if s.ctx.Err() != nil {
				return context.Cause(s.ctx)
			}
		}
		all = append(all, platforms...)
	}
	slices.Sort(all)
	switch all = slices.Compact(all); len(all) {
	case 0:
		p.Platform = s.Platform
	case 1:
		p.Platform = all[0]
	default:
		p.Platform = all[0] // for what else is looked at
		if !s.failed[p.at] {
			s.found.Add(yamlfile.Problem{Position: p.at, Message: fmt.Sprintf("its workers have several platforms, %s: say for which it is built, as target: %s", phrase.List(all), all[0])})
		}
	}
	return nil
}

// serves reports whether one of the platforms of a worker is the one that is wanted. A
// variant that is not wanted may be any.
func serves(platforms []string, wanted string) bool {
	return slices.ContainsFunc(platforms, func(p string) bool { return p == wanted || strings.HasPrefix(p, wanted+"/") })
}

// answering finds the first worker of a place that answers and serves it.
func (s *collecting) answering(p *place) (string, error) {
	if p.asked {
		return p.worker, nil
	}
	p.asked = true
	for _, h := range p.hosts {
		if p.silent >= mostAsked {
			break
		}
		platforms, err := s.fleet.look(s.ctx, h.Name)
		if s.ctx.Err() != nil {
			return "", context.Cause(s.ctx)
		}
		if len(h.Platforms) > 0 {
			platforms = h.Platforms
		}
		switch {
		case err != nil:
			p.why = append(p.why, err)
			p.silent++
		case !serves(platforms, p.Platform):
			p.why = append(p.why, fmt.Errorf("worker %s builds for %s", h.Name, phrase.List(platforms)))
		default:
			p.worker = h.Name
			return p.worker, nil
		}
	}
	return "", nil
}

// pinImages finds out which contents images have. Those of packages that cannot be built are
// looked at where the definition is refused, for what is wrong with them.
func (s *collecting) pinImages(p *plan.Plan) error {
	done := map[string]bool{} // packages
	for _, unbuildable := range []bool{false, true} {
		if unbuildable && s.found.Empty() {
			break
		}
		for _, j := range p.Jobs {
			of := s.jobs[j.Package]
			if done[j.Package] || of.pkg.Unbuildable != "" && !unbuildable {
				continue
			}
			done[j.Package] = true
			if err := s.pinImage(of); err != nil {
				return err
			}
		}
	}
	return nil
}

// pinImage finds out which content the image of a job has.
func (s *collecting) pinImage(of *job) error {
	name, from := of.recipe.Image.Image, of.pkg.Job.Image.At
	if of.place == nowhere || name == "" || s.failed[from] {
		return nil
	}
	at := s.places[of.place]
	pinned, known := at.images[name]
	if !known {
		var err error
		pinned, err = s.pin(at, name)
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		if err != nil {
			pinned.Unpinned = cut(strings.Join(strings.Fields(err.Error()), " "))
		}
		at.images[name] = pinned
		s.out.Images = append(s.out.Images, pinned)
	}
	if pinned.Unpinned != "" && !s.Unpinned && !s.lacking(at) {
		s.problem(from, of.pkg, "image", "which content image %s has for %s cannot be found out: %s; make it available, or say --allow-unpinned to use whatever it is on each worker", name, at.Platform, pinned.Unpinned)
	}
	return nil
}

// pin asks a worker for an image.
func (s *collecting) pin(at *place, name string) (Pinned, error) {
	out := Pinned{Image: recipe.Image{Image: name}, Platform: at.Platform}
	worker, err := s.answering(at)
	if err != nil {
		return out, err
	}
	if worker == "" {
		if pinned, is := byContent(out); is {
			return pinned, nil
		}
		if s.lacking(at) {
			at.missing = append(at.missing, name)
		}
		return out, s.unserved(at)
	}
	on, err := s.Engine(s.ctx, worker)
	if err != nil {
		return out, err
	}
	out.Worker = worker
	ctx, cancel := context.WithTimeoutCause(s.ctx, imageTimeout, fmt.Errorf("no answer within %s", imageTimeout))
	defer cancel()
	image, err := on.Images.Image(ctx, name, s.Policy, nil)
	if err == nil && image.ID == "" {
		err = errors.New("the engine does not say which content it has")
	}
	if err != nil {
		return out, err
	}
	out.ID, out.Digest = image.ID, image.Digest
	if of := platformOf(image); of != "" && !strings.HasPrefix(at.Platform+"/", of+"/") {
		s.out.Warnings = append(s.out.Warnings, fmt.Sprintf("image %s is for %s, and what it builds for %s: it may not start there", name, of, at.Platform))
	}
	return out, nil
}

// byContent pins an image whose name says which content it has.
func byContent(p Pinned) (Pinned, bool) {
	if !revision.IsContent(p.Image.Image) {
		return p, false
	}
	if _, digest, in := strings.Cut(p.Image.Image, "@"); in {
		p.Digest = digest
	} else {
		p.ID = p.Image.Image
	}
	return p, true
}

// lacking reports whether it is certain that no worker there is serves a place. Other than one that does not answer,
// that is no reason to build nothing of the group.
func (s *collecting) lacking(p *place) bool {
	return p.asked && p.worker == "" && s.fleet.err == nil && len(s.fleet.hosts) > 0 && p.silent == 0
}

func platformOf(image engine.Image) string {
	if image.OS == "" || image.Arch == "" {
		return ""
	}
	return image.OS + "/" + image.Arch
}

// unserved is why no worker serves a place, with what to do.
func (s *collecting) unserved(p *place) error {
	switch {
	case s.fleet.err != nil:
		return fmt.Errorf("it is not known which workers there are: %w", s.fleet.err)
	case len(s.fleet.hosts) == 0:
		return errors.New("the inventory has no hosts: list workers in it")
	case p.among == 0:
		return fmt.Errorf("no host of the inventory is selected by %q: correct the query, or give hosts what it asks for", p.Workers)
	case len(p.hosts) == 0:
		return fmt.Errorf("no worker has the platform %s: add a host that has it to the inventory, or correct target", p.Platform)
	}
	reasons, more := p.why, ""
	if len(reasons) > mostReasons {
		reasons, more = reasons[:mostReasons], fmt.Sprintf(", and %d more", len(p.why)-mostReasons)
	}
	if p.silent == 0 {
		return fmt.Errorf("no worker has the platform %s: %w%s: add a host that has it to the inventory, or correct target", p.Platform, errors.Join(reasons...), more)
	}
	return fmt.Errorf("no worker for %s answers (%s): %w%s", p.Platform, phrase.Count(len(p.hosts), "host"), errors.Join(reasons...), more)
}

// warnUnserved says which jobs of a group no worker can do now.
func (s *collecting) warnUnserved(c *build.Submit) error {
	const named = 5
	for i, at := range c.Places {
		from := slices.IndexFunc(s.places, func(p *place) bool { return p.Place == at })
		place := s.places[from]
		worker, err := s.answering(place)
		if err != nil {
			return err
		}
		if worker != "" {
			continue
		}
		var names []string
		for _, j := range c.Jobs {
			if j.Place == i {
				names = append(names, j.Package)
			}
		}
		count := len(names)
		slices.Sort(names)
		text := fmt.Sprintf("no worker can do %s now, of %s: %s", phrase.Count(count, "job"), phrase.First(slices.Compact(names), named), strings.Join(strings.Fields(s.unserved(place).Error()), " "))
		if len(place.missing) > 0 {
			text += fmt.Sprintf("; image %s is used as it is on the worker that is added: name it by digest to prevent that", phrase.First(place.missing, named))
		}
		s.out.Warnings = append(s.out.Warnings, text)
	}
	return nil
}
