package shipped

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/atomicfile"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/usercache"
)

// Engine is what Images needs of a container engine.
type Engine interface {
	Image(ctx context.Context, ref string, policy engine.PullPolicy, progress func(engine.Progress)) (engine.Image, error)
	Load(ctx context.Context, tar io.Reader) error
	Run(ctx context.Context, spec engine.Spec, io engine.IO) (engine.Exit, error)
}

// Options are what NewImages needs in addition to the engine.
type Options struct {
	Version string // of Deployster
	OS      string // of the engine's containers, as engine.Info has it
	Arch    string // of the engine's containers, GOARCH

	// TypesImage is an image of Deployster from which the binary is taken when
	// this machine has none for the engine's platform. Its entrypoint is asked
	// to "type binary", which writes the program to stdout. "" is none.
	TypesImage string
}

// Images makes images available in an engine: those of the shipped types by
// loading them when the engine does not hold them yet, all others by asking the
// engine. It is safe for concurrent use.
type Images struct {
	engine  Engine
	source  Source
	options Options

	loading sync.Mutex // one load has all types, so nobody needs a second
	running ownProgram // the program that runs, once it is known; loading is held
}

// ownProgram is the file of a program, as it was found.
type ownProgram struct {
	identity string // "" of one that is not known, or may change unnoticed
	binary   Binary
}

// NewImages serves an engine with the types of the running program.
func NewImages(e Engine, o Options) (*Images, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the running program: %w", err)
	}
	cache, err := usercache.Dir()
	if err != nil {
		cache = "" // hashes are computed each time
	}
	source := Source{Executable: executable, CacheDir: cache, GOOS: runtime.GOOS, GOARCH: runtime.GOARCH}
	return &Images{engine: e, source: source, options: o}, nil
}

// Image makes the image behind ref available, see engine.Engine.
func (i *Images) Image(ctx context.Context, ref string, policy engine.PullPolicy, progress func(engine.Progress)) (engine.Image, error) {
	name, ours := shippedName(ref)
	if !ours {
		return i.engine.Image(ctx, ref, policy, progress)
	}
	if _, known := Lookup(name); !known {
		return engine.Image{}, unknownType(name)
	}
	image, err := i.shipped(ctx, name, policy, progress)
	if err != nil {
		return engine.Image{}, fmt.Errorf("resource type %s, which ships with Deployster: %w", ref, err)
	}
	image.Ref = ref
	return image, nil
}

// shippedName is the NAME of deployster/NAME. With a tag or digest it is an
// image like any other.
func shippedName(ref string) (string, bool) {
	name, ok := strings.CutPrefix(ref, Prefix)
	return name, ok && !strings.ContainsAny(name, ":@/")
}

func (i *Images) shipped(ctx context.Context, name string, policy engine.PullPolicy, progress func(engine.Progress)) (engine.Image, error) {
	i.loading.Lock()
	defer i.loading.Unlock()
	b, err := i.program(ctx, policy, progress)
	if err != nil {
		return engine.Image{}, err
	}
	tag := Tag(name, i.options.Version, b)
	image, err := i.engine.Image(ctx, tag, engine.PullNever, nil)
	if !errors.Is(err, engine.ErrNoImage) {
		return image, err
	}
	if err := i.load(ctx, b, progress); err != nil {
		return engine.Image{}, err
	}
	return i.engine.Image(ctx, tag, engine.PullNever, nil)
}

// Program is the binary of this program for the engine's platform. TypesImage, which it may
// have to be taken from, is made available as policy says.
func (i *Images) Program(ctx context.Context, policy engine.PullPolicy, progress func(engine.Progress)) (Binary, error) {
	i.loading.Lock()
	defer i.loading.Unlock()
	return i.program(ctx, policy, progress)
}

func (i *Images) program(ctx context.Context, policy engine.PullPolicy, progress func(engine.Progress)) (Binary, error) {
	if i.options.OS != "linux" {
		return Binary{}, fmt.Errorf("it needs an engine for Linux containers; this one runs %s", i.options.OS)
	}
	b, err := i.binary()
	if errors.Is(err, fs.ErrNotExist) && i.options.TypesImage != "" {
		b, err = i.extract(ctx, i.options.Arch, policy, progress)
	}
	return b, err
}

// binary is that of the source. Each step of a pipeline asks for it, so what the program
// that runs is found to be is remembered for as long as its file is the same.
func (i *Images) binary() (Binary, error) {
	id := ""
	if info, err := os.Stat(i.source.Executable); err == nil {
		var changed time.Time
		if id, changed = identityOf(info); time.Since(changed) < recently {
			id = ""
		}
	}
	if id != "" && i.running.identity == id {
		return i.running.binary, nil
	}
	b, err := i.source.Binary(i.options.Arch)
	if err == nil && b.Path == i.source.Executable {
		i.running = ownProgram{id, b}
	}
	return b, err
}

// sendingEvery is the time after which each report about a load comes. A short one has none.
const sendingEvery = time.Second

// sending reports how much of what an engine loads was read.
type sending struct {
	io.Reader
	report   func(engine.Progress)
	progress engine.Progress
	due      time.Time
}

// Read implements io.Reader.
func (s *sending) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.progress.Current += int64(n)
	if now := time.Now(); s.report != nil && !now.Before(s.due) {
		s.due = now.Add(sendingEvery)
		p := s.progress
		p.Current = min(p.Current, p.Total) // without what a tar adds
		s.report(p)
	}
	return n, err
}

// load gives the engine the images of all types. They have one layer in common, so that the others cost
// nothing. Alone, each would need that layer to be sent again.
func (i *Images) load(ctx context.Context, b Binary, progress func(engine.Progress)) error {
	sent := &sending{report: progress, progress: engine.Progress{Sent: true}, due: time.Now().Add(sendingEvery)}
	if info, err := os.Stat(b.Path); err == nil {
		sent.progress.Total = info.Size()
	}
	r, w := io.Pipe()
	sent.Reader = r
	packed := make(chan error, 1)
	go func() {
		err := crash.Do("packing the images of types", func() error { return WriteArchive(w, i.options.Version, b, Names()...) })
		w.CloseWithError(err) // nil is the end
		packed <- err
	}()
	err := i.engine.Load(ctx, sent)
	// What comes after the last file of a tar need not have been read, so it
	// is no failure of the packing when nobody reads any longer.
	_ = r.Close()
	if e := <-packed; e != nil && !errors.Is(e, io.ErrClosedPipe) {
		return e // and the reason why the engine failed too
	}
	if err != nil {
		return fmt.Errorf("loading the image: %w", err)
	}
	return nil
}

// extract takes the binary out of TypesImage.
func (i *Images) extract(ctx context.Context, arch string, policy engine.PullPolicy, progress func(engine.Progress)) (Binary, error) {
	image, err := i.engine.Image(ctx, i.options.TypesImage, policy, progress)
	if err != nil {
		return Binary{}, fmt.Errorf("--types-image: %w", err)
	}
	if i.source.CacheDir == "" {
		return Binary{}, errors.New("--types-image needs a cache directory that only you can write to; set HOME or XDG_CACHE_HOME")
	}
	sum := sha256.Sum256([]byte(image.ID + "\x00" + arch))
	path := filepath.Join(i.source.CacheDir, "binary-"+hex.EncodeToString(sum[:16]))
	b, err := i.source.checked(path, arch)
	if !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	if err := i.extractTo(ctx, image, path, arch); err != nil {
		return Binary{}, fmt.Errorf("taking the program out of --types-image %s: %w", i.options.TypesImage, err)
	}
	return i.source.checked(path, arch)
}

func (i *Images) extractTo(ctx context.Context, image engine.Image, path, arch string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	binary, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer binary.Discard()
	var complaint strings.Builder
	exit, err := i.engine.Run(ctx, engine.Spec{Image: image.ID, Args: []string{"type", "binary"}, Network: "none"},
		engine.IO{Stdout: binary.File, Stderr: &complaint})
	if err != nil {
		return err
	}
	if exit.Code != 0 {
		return fmt.Errorf(`"type binary" ended with %d: %s`, exit.Code, strings.TrimSpace(complaint.String()))
	}
	if _, err := isStatic(binary.Name(), arch); err != nil {
		return fmt.Errorf("it is not an image of Deployster for linux/%s: %w", arch, err)
	}
	return binary.Commit()
}
