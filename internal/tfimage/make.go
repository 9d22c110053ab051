package tfimage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/terraform"
	"github.com/deployster-go/deployster/schema"
)

// Engine is what is needed of a container engine.
type Engine interface {
	Load(ctx context.Context, tar io.Reader) error
	Run(ctx context.Context, spec engine.Spec, io engine.IO) (engine.Exit, error)
}

// Options say which images are made.
type Options struct {
	Name      string   // of the images, before the name of the resource
	Version   string   // their tag
	Resources []string // names of those that are wanted; none is all
	Plugs     map[string]protocol.PlugRequest
}

// describeTimeout is how long a provider may take to say what its resources are.
const describeTimeout = 5 * time.Minute

// maxDescriptions bounds what a provider says about all its resources, in bytes.
const maxDescriptions = 512 << 20

// Made is what came of it.
type Made struct {
	Images  []string          // in the order of their names
	Skipped map[string]string // resources of which there is no image, and why
}

// Make makes the images in an engine.
func Make(ctx context.Context, e Engine, c Contents, o Options) (Made, error) {
	own := Image{Tag: o.Name + ":" + o.Version}
	if err := load(ctx, e, c, own); err != nil {
		return Made{}, err
	}
	text, err := describe(ctx, e, own.Tag)
	if err != nil {
		return Made{}, fmt.Errorf("asking the provider for its resources: %w", err)
	}
	all, err := decode(text)
	if err != nil {
		return Made{}, fmt.Errorf("asking the provider for its resources: %w", err)
	}
	made := Made{Skipped: map[string]string{}}
	images := []Image{own}
	chosen, err := choose(all, o.Resources)
	if err != nil {
		return Made{}, err
	}
	for _, d := range chosen {
		if why := unfit(d); why != nil {
			if len(o.Resources) > 0 {
				return Made{}, fmt.Errorf("%s: %w", d.Name, why)
			}
			made.Skipped[d.Name] = why.Error()
			continue
		}
		d.Plugs = o.Plugs
		c.Inits = append(c.Inits, d)
		images = append(images, Image{Tag: o.Name + "/" + d.Name + ":" + o.Version, Args: []string{d.Name}})
		made.Images = append(made.Images, images[len(images)-1].Tag)
	}
	slices.Sort(made.Images)
	return made, load(ctx, e, c, images...)
}

// load gives images to the engine.
func load(ctx context.Context, e Engine, c Contents, images ...Image) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := crash.Do("packing the images of a provider", func() error { return c.Write(w, images...) })
		_ = w.CloseWithError(err) // nil is the end
		packed <- err
	}()
	err := e.Load(ctx, r)
	_ = r.Close()
	if e := <-packed; e != nil && !errors.Is(e, io.ErrClosedPipe) {
		return e
	}
	if err != nil {
		return fmt.Errorf("loading the images: %w", err)
	}
	return nil
}

// bounded takes so many bytes, and no more.
type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		return 0, fmt.Errorf("it says more than %d bytes", b.most)
	}
	return b.Buffer.Write(p)
}

// describe runs the provider in a container, and returns what it says.
func describe(ctx context.Context, e Engine, image string) ([]byte, error) {
	said, complaint := &bounded{most: maxDescriptions}, &bounded{most: 1 << 20}
	exit, err := e.Run(ctx, engine.Spec{Image: image, Network: "none", Timeout: describeTimeout}, engine.IO{Stdout: said, Stderr: complaint})
	if err != nil {
		return nil, err
	}
	if exit.Code != 0 {
		return nil, errors.New(strings.TrimPrefix(strings.TrimSpace(complaint.String()), "error: "))
	}
	return said.Bytes(), nil
}

// namePattern is what names of resources must be like to be names of images, too.
var namePattern = pattern.Lazy(`^(data\.)?[a-z0-9]+((_{1,2}|-+)[a-z0-9]+)*$`)

func decode(text []byte) (all []terraform.Description, err error) {
	lines := json.NewDecoder(bytes.NewReader(text))
	for lines.More() {
		var d terraform.Description
		if err := lines.Decode(&d); err != nil {
			return nil, fmt.Errorf("its answer is not understood: %w", err)
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		return nil, errors.New("it has no resources and no data sources")
	}
	return all, nil
}

// choose are the resources that are wanted.
func choose(all []terraform.Description, names []string) ([]terraform.Description, error) {
	if len(names) == 0 {
		return all, nil
	}
	known := make([]string, 0, len(all))
	for _, d := range all {
		known = append(known, d.Name)
	}
	var chosen []terraform.Description
	for _, name := range names {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, fmt.Errorf("the provider has no resource %q%s", name, near(name, known))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// near says which resources may be meant by a name that none has: one that is spelt alike, those that
// have it in their names, or the first of all.
func near(name string, known []string) string {
	if one := suggest.Closest(name, known); one != "" {
		return fmt.Sprintf("; did you mean %s?", one)
	}
	said, some := "; it has ", slices.Sorted(slices.Values(known))
	bare := strings.ToLower(strings.TrimPrefix(name, "data."))
	like := slices.DeleteFunc(slices.Clone(some), func(k string) bool { return !strings.Contains(strings.ToLower(k), bare) })
	if bare != "" && len(like) > 0 {
		said, some = "; names like it are ", like
	}
	const most = 8
	more := ""
	if len(some) > most {
		some, more = some[:most], fmt.Sprintf(" and %d more", len(some)-most)
	}
	return said + strings.Join(some, ", ") + more
}

// unfit says why there can be no type of a resource.
func unfit(d terraform.Description) error {
	if !namePattern().MatchString(d.Name) {
		return errors.New("its name cannot be that of an image")
	}
	if _, err := schema.CompileConfig(d.ConfigSchema); err != nil {
		return fmt.Errorf("its schema: %w", err)
	}
	if _, err := schema.CompileConfig(d.StateSchema); err != nil {
		return fmt.Errorf("the schema of its state: %w", err)
	}
	return nil
}
