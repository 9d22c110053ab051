package enginetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/deployster-go/deployster/engine"
)

// Program is what a container of the fake runs: it gets what a process gets
// and returns its exit code. It must return soon once ctx is done; its streams
// fail from then on.
type Program func(ctx context.Context, call Call) int

// FakeImage is an image of the fake: a Go function and the configuration that
// an image carries.
type FakeImage struct {
	Program    Program
	Entrypoint []string
	Cmd        []string
	Env        []string
	WorkDir    string
	User       string
	Digest     string // of its manifest in a registry; "" if it never was in one

	// Executables are the entrypoints that exist in the image; nil is any.
	Executables []string
}

// Fake is an engine in memory whose images are Go functions. It needs no
// privileges and takes microseconds per run, also inside a synctest bubble. It
// isolates nothing: programs see this process's file system, by way of
// Call.Host.
//
// The exported fields are set before first use. The zero value is an engine
// without images.
type Fake struct {
	Images   map[string]FakeImage // by reference, held by the engine
	Registry map[string]FakeImage // by reference, to be had by pulling

	// Loads names the image that stands for one loaded from a tar under ref;
	// nil refuses tars.
	Loads func(ref string) (FakeImage, error)

	// Fail, if set, is asked before each run; an error fails the run with it,
	// and nothing is executed.
	Fail func(spec engine.Spec) error

	// Information is what Info says; a zero Name is completed to an amd64
	// Linux engine called "fake".
	Information engine.Info

	mu         sync.Mutex
	containers map[string]*fakeContainer
	runs       []*FakeRun
	pulls      []string
	created    int
	running    int
	maxRunning int
}

var _ engine.Engine = (*Fake)(nil)

// FakeRun is the record of one run. While Spec.Hold holds it, it is neither
// Called nor Done.
type FakeRun struct {
	Spec   engine.Spec
	Called bool // its program was called
	Done   bool // it has ended, and Exit and Err hold
	Exit   engine.Exit
	Err    error
}

type fakeContainer struct {
	engine.Container
	kill  context.CancelFunc
	ended chan struct{} // closed once exit is set
	exit  engine.Exit
	at    time.Time   // when it ended
	kept  [][2]string // what it wrote to stdout and stderr; see Print
}

// Info says who the fake is.
func (f *Fake) Info(ctx context.Context) (engine.Info, error) {
	info := f.Information
	if info.Name == "" {
		info = engine.Info{Name: "fake", Version: "1", OS: "linux", Arch: "amd64", Address: "memory"}
	}
	return info, ctx.Err()
}

// Image finds an image, or moves it from the registry to the engine.
func (f *Fake) Image(ctx context.Context, ref string, policy engine.PullPolicy, progress func(engine.Progress)) (engine.Image, error) {
	if err := ctx.Err(); err != nil {
		return engine.Image{}, fmt.Errorf("image %q: %w", ref, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	name, image, present := f.find(ref)
	switch policy {
	case engine.PullNever:
	case engine.PullMissing, engine.PullAlways:
		if present && (policy == engine.PullMissing || name != ref) {
			break
		}
		pulled, ok := f.Registry[ref]
		if !ok {
			return engine.Image{}, fmt.Errorf("pull image %q: %w", ref, engine.ErrNoImage)
		}
		f.pulls = append(f.pulls, ref)
		f.hold(ref, pulled)
		name, image, present = ref, pulled, true
		if progress != nil {
			progress(engine.Progress{Image: ref})
			progress(engine.Progress{Image: ref, Current: 1, Total: 1})
		}
	default:
		return engine.Image{}, fmt.Errorf("image %q: pull policy %q is not known", ref, policy)
	}
	if !present {
		return engine.Image{}, fmt.Errorf("image %q: %w", ref, engine.ErrNoImage)
	}
	return engine.Image{Ref: ref, ID: fakeID(name), Digest: image.Digest, OS: "linux", Arch: "amd64"}, nil
}

// Load puts the images of a docker-save tar into the engine, as Loads has it.
func (f *Fake) Load(_ context.Context, tar io.Reader) error {
	if f.Loads == nil {
		return fmt.Errorf("load images: the fake has no Loads")
	}
	refs, err := refsOf(tar)
	if err != nil {
		return fmt.Errorf("load images: %w", err)
	}
	for _, ref := range refs {
		image, err := f.Loads(ref)
		if err != nil {
			return fmt.Errorf("load image %q: %w", ref, err)
		}
		f.mu.Lock()
		f.hold(ref, image)
		f.mu.Unlock()
	}
	return nil
}

// hold adds an image to the engine; f.mu is held.
func (f *Fake) hold(ref string, image FakeImage) {
	images := maps.Clone(f.Images)
	if images == nil {
		images = map[string]FakeImage{}
	}
	images[ref] = image
	f.Images = images
}

// find looks an image up by reference or id; f.mu is held.
func (f *Fake) find(ref string) (string, FakeImage, bool) {
	if image, ok := f.Images[ref]; ok {
		return ref, image, true
	}
	for name, image := range f.Images {
		if fakeID(name) == ref {
			return name, image, true
		}
	}
	return "", FakeImage{}, false
}

func fakeID(ref string) string {
	sum := sha256.Sum256([]byte(ref))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Containers lists the containers that carry all the labels. One that is held
// is not Started: its program was not called.
func (f *Fake) Containers(ctx context.Context, labels map[string]string) ([]engine.Container, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []engine.Container
	for _, id := range slices.Sorted(maps.Keys(f.containers)) {
		container := f.containers[id].Container
		if matches(container.Labels, labels) {
			container.Labels = maps.Clone(container.Labels)
			found = append(found, container)
		}
	}
	return found, nil
}

func matches(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if has, ok := labels[key]; !ok || value != "" && has != value {
			return false
		}
	}
	return true
}

// Wait blocks until the container has ended.
func (f *Fake) Wait(ctx context.Context, id string) (engine.Exit, error) {
	f.mu.Lock()
	container, ok := f.containers[id]
	f.mu.Unlock()
	if !ok {
		return engine.Exit{}, fmt.Errorf("wait for container %s: %w", id, engine.ErrNoContainer)
	}
	select {
	case <-ctx.Done():
		return engine.Exit{}, fmt.Errorf("wait for container %s: %w", id, context.Cause(ctx))
	case <-container.ended:
		exit := container.exit
		exit.Ended = container.at
		return exit, nil
	}
}

// Remove kills the container if it runs, and removes it.
func (f *Fake) Remove(_ context.Context, id string) error {
	f.mu.Lock()
	container, ok := f.containers[id]
	delete(f.containers, id)
	f.mu.Unlock()
	if ok {
		container.kill()
		<-container.ended
	}
	return nil
}

// Close does nothing.
func (f *Fake) Close() error { return nil }

// Runs returns what ran or was to run up to now, in the order of the beginnings.
func (f *Fake) Runs() []FakeRun {
	f.mu.Lock()
	defer f.mu.Unlock()
	runs := make([]FakeRun, len(f.runs))
	for i, run := range f.runs {
		runs[i] = *run
	}
	return runs
}

// Pulls returns the references that were fetched from the registry, in order.
func (f *Fake) Pulls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.pulls)
}

// MaxRunning returns how many programs ran at once at most.
func (f *Fake) MaxRunning() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.maxRunning
}

// Leave puts a container into the engine that a run which is no more has left
// behind. It runs until it is removed or until end is called, which makes it
// exit with the given code and returns when it has; end may be called once.
func (f *Fake) Leave(labels map[string]string) (id string, end func(code int)) {
	killed := make(chan struct{})
	container := &fakeContainer{ended: make(chan struct{}), kill: sync.OnceFunc(func() { close(killed) })}
	container.Started, container.Running = true, true
	id = f.keep(container, labels)
	code := make(chan int, 1)
	go func() {
		select {
		case <-killed:
			f.finish(container, engine.Exit{Code: killedCode})
		case code := <-code:
			f.finish(container, engine.Exit{Code: code})
		}
	}()
	return id, func(exit int) {
		code <- exit
		<-container.ended
	}
}

// keep enters a container.
func (f *Fake) keep(container *fakeContainer, labels map[string]string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.created++
	sum := sha256.Sum256([]byte(strconv.Itoa(f.created)))
	container.ID = hex.EncodeToString(sum[:])
	container.Labels = maps.Clone(labels)
	container.Created = time.Now().UTC()
	if f.containers == nil {
		f.containers = map[string]*fakeContainer{}
	}
	f.containers[container.ID] = container
	return container.ID
}

// finish notes how a container ended.
func (f *Fake) finish(container *fakeContainer, exit engine.Exit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	container.exit, container.Running, container.at = exit, false, time.Now()
	close(container.ended)
}
