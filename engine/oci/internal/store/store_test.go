//go:build linux

package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
)

func TestAnImageIsFoundByItsNamesAndIDs(t *testing.T) {
	s := open(t, t.TempDir())
	web := load(t, s, save(t, "web", imageOf(t, tarOf(t, file("web", "1")))))
	other := load(t, s, save(t, "127.0.0.1:5000/team/web:2", imageOf(t, tarOf(t, file("other", "2")))))
	digits := strings.TrimPrefix(web.ID, "sha256:")
	named := must.Get(reference.ParseNormalizedNamed("web"))(t)
	registry := reference.Domain(named) // the default one
	sum := "@sha256:" + strings.Repeat("0", 64)
	for _, c := range []struct {
		ref  string
		want string // "": there is none
	}{
		{"web", web.ID},
		{"web:latest", web.ID},
		{"library/web", web.ID},
		{registry + "/library/web", web.ID},
		{"index." + registry + "/web:latest", web.ID},
		{web.ID, web.ID},
		{digits, web.ID},
		{digits[:12], web.ID},
		{"sha256:" + digits[:12], web.ID},
		{"127.0.0.1:5000/team/web:2", other.ID},
		{other.ID, other.ID},
		{"web:2", ""},
		{"team/web", ""},
		{"127.0.0.1:5000/team/web", ""},
		{"127.0.0.1:5000/web:latest", ""},
		{"web" + sum, ""},
		{"web:latest" + sum, ""},
		{digits[:11], ""},
		{strings.Repeat("0", 12), ""},
		{strings.Repeat("0", 64), ""},
		{"sha256:" + strings.Repeat("0", 64), ""},
	} {
		found, err := s.Find(c.ref)
		switch {
		case c.want == "":
			checkError(t, err, engine.ErrNoImage, c.ref)
		case err != nil:
			t.Error(err)
		case found.ID != c.want:
			t.Errorf("%s is %s, want %s", c.ref, found.ID, c.want)
		}
	}
	for _, ref := range []string{"", "Web", "web:", "../web", "web\x00"} {
		_, err := s.Find(ref)
		checkError(t, err, nil, fmt.Sprintf("%q", ref))
		assert.True(t, !errors.Is(err, engine.ErrNoImage), "%v: what is no reference cannot be pulled either", err)
	}
}

func TestAnAmbiguousIDIsNotGuessed(t *testing.T) {
	one := v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("ab", 31) + "00"}
	two := v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("ab", 31) + "11"}
	i := &index{Images: map[v1.Hash]entry{one: {}, two: {}}, Names: map[string]v1.Hash{}}
	if found, err := i.find(two.Hex[:63]); err != nil || found != two {
		t.Errorf("found %s, %v; want %s", found, err, two)
	}
	_, err := i.find(one.Hex[:62])
	checkError(t, err, nil, "2 images")
	assert.True(t, !errors.Is(err, engine.ErrNoImage), "an ambiguous id would be pulled")

	// A name comes first, as with Docker.
	i.Names[mustKey(t, one.Hex[:62])] = two
	found, err := i.find(one.Hex[:62])
	assert.True(t, err == nil && found == two, "found %s, %v; want %s", found, err, two)
}

func TestWhatIsKnownAboutAnImage(t *testing.T) {
	s := open(t, t.TempDir())
	created := time.Date(2020, 2, 2, 2, 2, 2, 0, time.UTC)
	built := withConfig(t, imageOf(t, tarOf(t, file("a", "12345"), hardLink("b", "a")), tarOf(t, file("c", "123"))), func(config *v1.ConfigFile) {
		config.Created.Time = created
		config.Config.Entrypoint = []string{"/a"}
	})
	before := time.Now().Add(-time.Second)
	load(t, s, save(t, "web:1", built))
	load(t, s, save(t, "team/web:2", built))
	image := must.Get(s.Find("web:1"))(t)
	assert.True(t, image.ID == must.Get(built.ConfigName())(t).String() && image.Digest == "" &&
		slices.Equal(image.Names, []string{"team/web:2", "web:1"}) && image.Size == 8, "the image is %+v", image)
	assert.True(t, image.Created.Equal(created) && !image.Used.Before(before) &&
		slices.Equal(image.Config.Config.Entrypoint, []string{"/a"}), "the image is %+v", image)
	listed, err := s.List()
	assert.True(t, err == nil && len(listed) == 1 && listed[0].ID == image.ID, "the store lists %v, %v; want the one image", listed, err)

	// What a caller does to it stays with the caller.
	image.Config.Config.Entrypoint[0] = "/changed"
	again, err := s.Find("web:1")
	assert.True(t, err == nil && again.Config.Config.Entrypoint[0] == "/a", "found %+v, %v", again, err)
}

func TestANameMovesToTheImageLoadedLast(t *testing.T) {
	s := open(t, t.TempDir())
	first := load(t, s, save(t, "web", imageOf(t, tarOf(t, file("a", "1")))))
	second := load(t, s, save(t, "web", imageOf(t, tarOf(t, file("a", "2")))))
	found, err := s.Find("web")
	assert.True(t, err == nil && found.ID == second.ID, "web is %s, %v; want %s", found.ID, err, second.ID)
	found, err = s.Find(first.ID)
	assert.True(t, err == nil && len(found.Names) == 0, "the first is %+v, %v; want it without a name", found, err)
}

func TestRootfsListsLayersTopmostFirst(t *testing.T) {
	s := open(t, t.TempDir())
	low, high := tarOf(t, file("low", "")), tarOf(t, file("high", ""))
	image := load(t, s, save(t, "web", imageOf(t, low, high)))
	held := lease(t, s, image.ID)
	require.Len(t, held.Layers, 2, "the layers are %v, want two", held.Layers)
	checkTree(t, held.Layers[0], `high ""`)
	checkTree(t, held.Layers[1], `low ""`)
	assert.Equal(t, image.ID, held.Image.ID, "the lease is of")
	for _, dir := range held.Layers {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s has mode %v, %v; want 755", dir, info.Mode(), err)
		}
	}

	// An overlay refuses a directory that is given twice.
	image = load(t, s, save(t, "twice", imageOf(t, low, high, low)))
	held = lease(t, s, image.ID)
	require.Len(t, held.Layers, 2, "the layers are %v, want two", held.Layers)
	checkTree(t, held.Layers[0], `low ""`)
	image = load(t, s, save(t, "nothing", imageOf(t)))
	held = lease(t, s, image.ID)
	require.Len(t, held.Layers, 1, "the layers are %v, want an empty one", held.Layers)
	checkTree(t, held.Layers[0])
}

func TestRootfsNotesTheUse(t *testing.T) {
	s := open(t, t.TempDir())
	image := load(t, s, save(t, "web", imageOf(t, tarOf(t, file("a", "1")))))
	long := time.Now().Add(-time.Hour)
	id, _ := v1.NewHash(image.ID)
	require.NoError(t, os.Chtimes(s.imageLock(id), long, long))
	lease(t, s, image.ID)
	found := must.Get(s.Find("web"))(t)
	assert.True(t, time.Since(found.Used) <= time.Minute, "used %v; want just now", found.Used)
}

func TestRootfsNeedsAnImageOfTheStore(t *testing.T) {
	s := open(t, t.TempDir())
	missing := "sha256:" + strings.Repeat("0", 64)
	_, err := s.Rootfs(t.Context(), missing)
	checkError(t, err, engine.ErrNoImage, missing, "pull or load it")
	for _, id := range []string{"", "web", "sha256:../../../../etc", "md5:00"} {
		assert.Error(t, must.Fail(s.Rootfs(t.Context(), id)), "%q is an id", id)
	}
	checkEmpty(t, s)
}

func TestWhatTheStoreLostIsTold(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(s *Store, image v1.Hash, layer v1.Hash) error
		says   []string
	}{
		{"a layer", func(s *Store, _, layer v1.Hash) error { return os.RemoveAll(s.layerDir(layer)) }, []string{"layer", "is lost", "pull or load it again"}},
		{"a configuration", func(s *Store, image, _ v1.Hash) error { return os.Remove(s.configFile(image)) }, []string{"configuration is lost", "pull or load it again"}},
		{"the right configuration", func(s *Store, image, _ v1.Hash) error { return os.WriteFile(s.configFile(image), []byte("{}"), 0o600) }, []string{"configuration", "is damaged", "pull or load it again"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			packed := save(t, "web", imageOf(t, tarOf(t, file("a", "1"))))
			s := open(t, dir)
			image := load(t, s, packed)
			id, _ := v1.NewHash(image.ID)
			require.NoError(t, c.damage(s, id, image.Config.RootFS.DiffIDs[0]))
			s = open(t, dir) // another process, which remembers nothing
			_, err := s.Find("web")
			checkError(t, err, engine.ErrNoImage, append(c.says, "web")...)
			_, err = s.Rootfs(t.Context(), image.ID)
			checkError(t, err, engine.ErrNoImage, append(c.says, image.ID)...)
			images := must.Get(s.List())(t)
			assert.True(t, len(images) == 1 && images[0].ID == image.ID, "the store lists %v; want also what is damaged", images)
			load(t, s, packed)
			checkTree(t, lease(t, s, image.ID).Layers[0], `a "1"`)
		})
	}
}

func TestAProcessWithoutFilesHasLostNoImage(t *testing.T) {
	dir := t.TempDir()
	image := load(t, open(t, dir), save(t, "web", imageOf(t, tarOf(t, file("a", "1")))))
	id, _ := v1.NewHash(image.ID)
	s := open(t, dir)
	var had unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &had))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: had.Max}))
	_, err := s.config(id)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &had))
	assert.True(t, errors.Is(err, unix.EMFILE) && !errors.Is(err, engine.ErrNoImage), "it says %v", err)
	_, err = s.config(id)
	assert.NoError(t, err)
}

func TestOpenRefusesWhatItCanNotUnderstand(t *testing.T) {
	for _, c := range []struct {
		name, index string
		says        []string
	}{
		{"an empty index", "", []string{"is damaged", "delete it", "load the images again"}},
		{"half an index", `{"version":1,"names":{`, []string{"is damaged", "delete it", "load the images again"}},
		{"an id that is a path", `{"version":1,"names":{"a":"sha256:../../../etc"}}`, []string{"is damaged", "delete it"}},
		{"a layer that is a path", `{"version":1,"layers":{"../../../etc":1}}`, []string{"is damaged", "delete it"}},
		{"a later version", `{"version":2}`, []string{"version 2", "another directory"}},
		{"layers for others", fmt.Sprintf(`{"version":1,"rootless":%t}`, os.Geteuid() == 0), []string{"rootless", "another directory"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "index.json")
			require.NoError(t, os.WriteFile(file, []byte(c.index), 0o600))
			_, err := Open(Options{Dir: dir, Platform: amd64, Rootless: os.Geteuid() != 0})
			checkError(t, err, nil, append(c.says, file)...)
		})
	}
	_, err := Open(Options{Dir: "relative"})
	checkError(t, err, nil, "relative", "absolute")
	blocked := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	_, err = Open(Options{Dir: blocked})
	checkError(t, err, nil, blocked)
	_, err = Open(Options{Dir: "/proc"})
	checkError(t, err, nil, "/proc")
}

func TestOpenRefusesWhatOthersCouldChange(t *testing.T) {
	for _, below := range []string{"", "images", "layers", "layers/sha256", "locks", "tmp"} {
		for _, c := range []struct {
			name   string
			change func(dir string) error
			says   []string
		}{
			{"the group may write", func(dir string) error { return os.Chmod(dir, 0o770) }, []string{"can be written to by others", "remove it"}},
			{"everybody may write", func(dir string) error { return os.Chmod(dir, 0o1777) }, []string{"can be written to by others", "remove it"}},
			{"a link", func(dir string) error {
				moved := dir + ".moved"
				return errors.Join(os.Rename(dir, moved), os.Symlink(moved, dir))
			}, []string{"is a link", "remove it"}},
		} {
			t.Run(c.name+" "+below, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "store")
				open(t, dir)
				require.NoError(t, c.change(filepath.Join(dir, below)))
				_, err := Open(Options{Dir: dir, Platform: amd64, Rootless: os.Geteuid() != 0})
				checkError(t, err, nil, append(c.says, filepath.Join(dir, below))...)
			})
		}
	}
}

func TestAnIndexDamagedLaterIsTold(t *testing.T) {
	s := open(t, t.TempDir())
	image := load(t, s, save(t, "web", imageOf(t, tarOf(t, file("a", "1")))))
	require.NoError(t, os.WriteFile(s.indexFile(), []byte("{"), 0o600))
	_, err := s.Find("web")
	checkError(t, err, nil, "web", s.indexFile(), "delete it")
	_, err = s.Rootfs(t.Context(), image.ID)
	checkError(t, err, nil, s.indexFile(), "delete it")
	_, err = s.List()
	checkError(t, err, nil, s.indexFile(), "delete it")
	_, err = s.Prune(t.Context(), func(Image) bool { return true })
	checkError(t, err, nil, s.indexFile(), "delete it")
	require.NoError(t, os.Remove(s.indexFile()))
	load(t, s, save(t, "web", imageOf(t, tarOf(t, file("a", "1")))))
}

func mustKey(t *testing.T, ref string) string {
	named := must.Get(reference.ParseNormalizedNamed(ref))(t)
	return nameKey(named)
}

// Run the fuzzers with -fuzzminimizetime 10x. Which code an input reaches differs from time to time here, and by
// default Go spends a minute on making each new input smaller.

// mostFuzzed bounds the inputs of fuzzers: what is longer takes longer, and says no more.
const mostFuzzed = 32 << 10

// scratch returns a directory for each execution of a fuzzer, in memory where there is such: on a disk, what an
// execution waits for is the disk. What the last one left is removed first.
func scratch(f *testing.F) func(t testing.TB) string {
	parent := "/dev/shm"
	if info, err := os.Stat(parent); err != nil || !info.IsDir() {
		parent = ""
	}
	made := must.Get(os.MkdirTemp(parent, "deployster-fuzz-"))(f)
	f.Cleanup(func() { _ = os.RemoveAll(made) })
	directory := filepath.Join(made, "here")
	return func(t testing.TB) string {
		require.NoError(t, errors.Join(os.RemoveAll(directory), os.Mkdir(directory, 0o700)))
		return directory
	}
}

// add makes an input of a seed, if it is not too long for one.
func add(f *testing.F, seed []byte) {
	if len(seed) <= mostFuzzed {
		f.Add(seed)
	}
}

func FuzzLoad(f *testing.F) {
	content := tarOf(f, file("a", "1"))
	image := imageOf(f, content)
	add(f, save(f, "web", image))
	add(f, gzipped(f, save(f, "web", image)))
	add(f, tarOfDir(f, layoutOf(f, named(image, fullNameAnnotation, "web"), variant(image, amd64))))
	add(f, tarOfDir(f, layoutOf(f, named(imageWith(f, types.OCILayerZStd, zstandard(f, content), content), refNameAnnotation, "web:1"))))
	directory := scratch(f)
	f.Fuzz(func(t *testing.T, packed []byte) {
		if len(packed) > mostFuzzed {
			return
		}
		s := open(t, directory(t))
		images, err := s.Load(t.Context(), bytes.NewReader(packed), nil)
		if err != nil {
			checkEmpty(t, s)
		}
		for _, image := range images {
			lease(t, s, image.ID)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	for _, c := range hostileLayers {
		add(f, tarOf(f, c.entries...))
	}
	directory := scratch(f)
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) > mostFuzzed {
			return
		}
		_, _ = unpackIn(t, directory(t), content, limits{bytes: 1 << 20, entries: 100, names: 1 << 16})
	})
}
