//go:build linux

package store

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
)

func TestPruneKeepsWhatIsWantedAndWhatItNeeds(t *testing.T) {
	s := open(t, t.TempDir())
	shared := tarOf(t, file("shared", "12345"))
	kept := load(t, s, save(t, "kept", imageOf(t, shared)))
	gone := load(t, s, save(t, "gone", imageOf(t, shared, tarOf(t, file("own", "123")))))
	result := must.Get(s.Prune(t.Context(), func(image Image) bool { return slices.Contains(image.Names, "kept:latest") }))(t)
	assert.True(t, len(result.Images) == 1 && result.Images[0].ID == gone.ID && result.Images[0].Size == 8 &&
		result.Bytes == 3, "Prune removed %+v, want one image with 3 bytes of its own", result)
	assert.ErrorIs(t, must.Fail(s.Find("gone")), engine.ErrNoImage, "gone is found")
	checkTree(t, lease(t, s, kept.ID).Layers[0], `shared "12345"`)
	assert.Len(t, namesIn(t, s.layersDir()), 1, "the layers")
	assert.Len(t, namesIn(t, filepath.Join(s.dir, "images")), 1, "the configurations")
}

func TestPruneByAge(t *testing.T) {
	s := open(t, t.TempDir())
	old := load(t, s, save(t, "old", imageOf(t, tarOf(t, file("a", "1")))))
	load(t, s, save(t, "new", imageOf(t, tarOf(t, file("a", "2")))))
	id := must.Get(v1.NewHash(old.ID))(t)
	long := time.Now().Add(-48 * time.Hour)
	require.NoError(t, os.Chtimes(s.imageLock(id), long, long))
	result := must.Get(s.Prune(t.Context(), func(image Image) bool { return time.Since(image.Used) < 24*time.Hour }))(t)
	assert.True(t, len(result.Images) == 1 && result.Images[0].ID == old.ID, "Prune removed %+v; want the old image", result)
}

func TestALeaseKeepsItsImageUntilReleased(t *testing.T) {
	s := open(t, t.TempDir())
	image := load(t, s, save(t, "web", imageOf(t, tarOf(t, file("a", "1")))))
	nothing := func(Image) bool { return false }
	first, second := lease(t, s, image.ID), lease(t, s, image.ID)
	for _, held := range []*Lease{first, second} {
		require.Empty(t, must.Get(s.Prune(t.Context(), nothing))(t).Images)
		checkTree(t, second.Layers[0], `a "1"`)
		held.Release()
		held.Release()
	}
	assert.Len(t, must.Get(s.Prune(t.Context(), nothing))(t).Images, 1)
	checkEmpty(t, s)
}

func TestALeaseIsRefusedForWhatIsPrunedMeanwhile(t *testing.T) {
	s := open(t, t.TempDir())
	image := load(t, s, save(t, "web", imageOf(t, tarOf(t, file("a", "1")))))
	id := must.Get(v1.NewHash(image.ID))(t)
	held, err := try(s.imageLock(id), exclusive) // as Prune does
	require.True(t, err == nil && held != nil, "the image cannot be locked: %v", err)
	done := make(chan error)
	go func() { _, err := s.Rootfs(t.Context(), image.ID); done <- err }()
	require.NoError(t, s.change(t.Context(), func(index *index) error { index.remove(id); return nil }))
	held.release()
	checkError(t, <-done, engine.ErrNoImage, image.ID)
}

func TestPruneRemovesWhatInterruptedProcessesLeft(t *testing.T) {
	s := open(t, t.TempDir())
	kept := load(t, s, save(t, "web", imageOf(t, tarOf(t, file("a", "1")))))
	orphan := strings.Repeat("0", 64)
	for _, left := range []string{"tmp/1/layer-x/a", "layers/sha256/" + orphan + "/a", "images/" + orphan + ".json", "images/x.json.new", "locks/image-" + orphan, "locks/layer-" + orphan} {
		path := filepath.Join(s.dir, left)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("12345"), 0o600))
	}
	working := must.Get(s.newWorkspace())(t)
	result, err := s.Prune(t.Context(), func(Image) bool { return true })
	assert.True(t, err == nil && len(result.Images) == 0 && result.Bytes == 10, "Prune removed %+v, %v; want ten bytes", result, err)
	assert.Equal(t, []string{filepath.Base(working.dir)}, namesIn(t, filepath.Join(s.dir, "tmp")), "left")
	assert.NoError(t, working.remove())
	lease(t, s, kept.ID).Release()
	_, err = s.Prune(t.Context(), func(Image) bool { return false })
	assert.NoError(t, err)
	checkEmpty(t, s)
}

func TestPruneEndsWithItsContext(t *testing.T) {
	s := open(t, t.TempDir())
	load(t, s, save(t, "web", imageOf(t, tarOf(t, file("a", "1")))))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Prune(ctx, func(Image) bool { cancel(); return false })
	checkError(t, err, context.Canceled, "prune images")
	_, err = s.Prune(t.Context(), func(Image) bool { return false })
	assert.NoError(t, err)
	checkEmpty(t, s)
}

func TestAWaitForALockEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held := must.Get(acquire(t.Context(), path, exclusive))(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := acquire(ctx, path, shared); done <- err }()
	cancel()
	checkError(t, <-done, context.Canceled, path)

	// One that was removed while it was waited for is not taken for the one that is there.
	go func() {
		lock, err := acquire(t.Context(), path, exclusive)
		if err == nil && !lock.isAt(path) {
			err = errors.New("it is not at its path")
		}
		done <- err
	}()
	require.NoError(t, os.Remove(path))
	held.release()
	assert.NoError(t, <-done)
}

func TestALoadKilledWhileItReadsLeavesNothing(t *testing.T) {
	packed := save(t, "web", imageOf(t, tarOf(t, file("a", strings.Repeat("a", 5000))), tarOf(t, file("b", "1"))))
	for part := range 5 {
		t.Run(fmt.Sprintf("after %d quarters", part), func(t *testing.T) {
			dir := t.TempDir()
			open(t, dir)
			read, write, err := os.Pipe()
			require.NoError(t, err)
			killed(t, other(t, "load", dir, "", read), func() {
				waittest.Until(t, func() bool { return len(namesIn(t, filepath.Join(dir, "tmp"))) > 0 }, "the process to begin")
				until := len(packed) * part / 4
				if part == 4 {
					until-- // but not to its end, when it would go on
				}
				_, err := write.Write(packed[:until])
				assert.NoError(t, err)
			})
			read.Close()
			write.Close()
			s := open(t, dir)
			assert.Empty(t, namesIn(t, filepath.Join(dir, "tmp")))
			_, err = s.Prune(t.Context(), func(Image) bool { return true })
			assert.NoError(t, err)
			checkEmpty(t, s)
			load(t, s, packed)
		})
	}
}

func TestALoadKilledBeforeItIsEnteredLeavesWholeLayers(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	image := imageOf(t, tarOf(t, file("a", "1")), tarOf(t, file("b", "2")))
	packed := save(t, "web", image)
	index := must.Get(acquire(t.Context(), s.indexLock(), exclusive))(t)
	killed(t, other(t, "load", dir, "", strings.NewReader(string(packed))), func() {
		waittest.Until(t, func() bool { return len(namesIn(t, s.layersDir())) == 2 }, "its layers")
	})
	index.release()
	s = open(t, dir)
	assert.Error(t, must.Fail(s.Find("web")), "the image is there")
	loaded := load(t, s, packed)
	checkTree(t, lease(t, s, loaded.ID).Layers[0], `b "2"`)
	assert.Empty(t, namesIn(t, filepath.Join(dir, "tmp")))
}

func TestAPullKilledAnywhereCanBeRepeated(t *testing.T) {
	first, second := tarOf(t, file("a", strings.Repeat("a", 200_000)), file("b", "1")), tarOf(t, file("c", strings.Repeat("c", 200_000)), file("d", "1"))
	image := imageOf(t, first, second)
	layers := must.Get(image.Layers())(t)
	digest := func(i int) string {
		sum := must.Get(layers[i].Digest())(t)
		return "/blobs/" + sum.String()
	}
	config := must.Get(image.ConfigName())(t)
	for _, c := range []struct {
		name  string
		stall string // part of the path of the answer that stops
		after int    // its bytes
		until func(t *testing.T, s *Store) bool
	}{
		{"before the manifest", "/manifests/", 0, nil},
		{"before the configuration", config.Hex, 0, nil},
		{"before the first layer", digest(0), 0, nil},
		{"within the first file", digest(0), 100_000, unpacking},
		{"between two files", digest(0), 201_728 - 1024, unpacking},
		{"before the end of the last layer", digest(1), len(second) - 1, unpacking},
		{"after the first layer", digest(1), 0, func(t *testing.T, s *Store) bool { return len(namesIn(t, s.layersDir())) == 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			registry := serveRegistry(t, "", "")
			ref, _ := registry.Push(t, "web", image)
			stalled := registry.stall(c.stall, c.after)
			killed(t, other(t, "pull", dir, ref, nil), func() {
				<-stalled
				if c.until != nil {
					waittest.Until(t, func() bool { return c.until(t, s) }, "its files")
				}
			})
			registry.goOn()
			s = open(t, dir)
			assert.Empty(t, namesIn(t, filepath.Join(dir, "tmp")))
			assert.Empty(t, must.Get(s.List())(t))
			pulled := must.Get(s.Pull(t.Context(), ref, nil))(t)
			held := lease(t, s, pulled.ID)
			checkTree(t, held.Layers[1], fmt.Sprintf("a %q", strings.Repeat("a", 200_000)), `b "1"`)
			checkTree(t, held.Layers[0], fmt.Sprintf("c %q", strings.Repeat("c", 200_000)), `d "1"`)
		})
	}
}

// unpacking reports whether there is a file in a layer that is being unpacked.
func unpacking(t *testing.T, s *Store) bool {
	found := must.Get(filepath.Glob(filepath.Join(s.dir, "tmp", "*", "layer-*", "*")))(t)
	return len(found) > 0
}

func TestTheLeaseOfAnotherProcessHoldsUntilItDies(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	load(t, s, save(t, "web", imageOf(t, tarOf(t, file("a", "1")))))
	nothing := func(Image) bool { return false }
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	defer write.Close()
	cmd := other(t, "hold", dir, "web", read)
	said := must.Get(cmd.StdoutPipe())(t)
	killed(t, cmd, func() {
		line, err := bufio.NewReader(said).ReadString('\n')
		require.Equal(t, "held\n", line, "it says %q, %v", line, err)
		result := must.Get(s.Prune(t.Context(), nothing))(t)
		assert.True(t, len(result.Images) == 0 && result.Bytes == 0, "Prune removed %+v; want nothing, because it is in use", result)
		_, err = s.Find("web")
		assert.NoError(t, err)
	})
	result := must.Get(s.Prune(t.Context(), nothing))(t)
	assert.True(t, len(result.Images) == 1 && result.Bytes == 1, "Prune removed %+v; want the image of one byte", result)
	checkEmpty(t, s)
}

// roleVariable makes the test program another process of the store: it does
// what the role says, with the arguments that follow.
const roleVariable = "DEPLOYSTER_STORE_TEST_ROLE"

var roles = map[string]func(s *Store, argument string) error{
	// load loads what comes on stdin.
	"load": func(s *Store, _ string) error {
		_, err := s.Load(context.Background(), os.Stdin, nil)
		return err
	},
	"pull": func(s *Store, ref string) error { _, err := s.Pull(context.Background(), ref, nil); return err },
	// hold takes a lease, says so, and holds it until stdin ends.
	"hold": func(s *Store, ref string) error {
		image, err := s.Find(ref)
		if err != nil {
			return err
		}
		held, err := s.Rootfs(context.Background(), image.ID)
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stdout, "held")
		_, err = io.Copy(io.Discard, os.Stdin)
		held.Release()
		return err
	},
	// overlay mounts the image "web" below a directory and lists it.
	"overlay": func(s *Store, below string) error {
		image, err := s.Find("web")
		if err != nil {
			return err
		}
		held, err := s.Rootfs(context.Background(), image.ID)
		if err != nil {
			return err
		}
		defer held.Release()
		mounted, extra := filepath.Join(below, "mounted"), filepath.Join(below, "extra")
		if err := os.Mkdir(mounted, 0o700); err != nil {
			return err
		}
		if err := os.Mkdir(extra, 0o700); err != nil { // an overlay without an upper directory wants two lower ones
			return err
		}
		options := "lowerdir=" + strings.Join(append(slices.Clone(held.Layers), extra), ":")
		if s.rootless {
			options += ",userxattr"
		}
		if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			return err
		}
		if err := syscall.Mount("overlay", mounted, "overlay", syscall.MS_RDONLY, options); err != nil {
			return fmt.Errorf("mount %s: %w", options, err)
		}
		lines, err := tree(mounted)
		fmt.Fprintln(os.Stdout, strings.Join(lines, "\n"))
		return err
	},
}

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(enginetest.Main(m, "TestAnOverlayOfTheLayersIsTheImage/a_plain_user_in_a_user_namespace"))
	}
	s, err := Open(Options{Dir: os.Args[1], Platform: amd64, Rootless: os.Args[2] == "true"})
	if err == nil {
		err = roles[role](s, os.Args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// other is another process that uses the store.
func other(t *testing.T, role, dir, argument string, stdin io.Reader) *exec.Cmd {
	self := must.Get(os.Executable())(t)
	cmd := exec.Command(self, dir, fmt.Sprint(os.Geteuid() != 0), argument)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stdin = stdin
	cmd.WaitDelay = waittest.Limit
	return cmd
}

func killed(t *testing.T, cmd *exec.Cmd, until func()) {
	var said strings.Builder
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	until()
	err := cmd.Process.Kill()
	require.NoError(t, err, "it was to be killed and ended before: %v, %s", err, said.String())
	err = cmd.Wait()
	require.Equal(t, -1, cmd.ProcessState.ExitCode(), "it was to be killed and ended with %v, %s", err, said.String())
}

func TestAnOverlayOfTheLayersIsTheImage(t *testing.T) {
	packed := save(t, "web", imageOf(t,
		tarOf(t, file("hidden/by-root", "1"), file("old", "1")),
		tarOf(t, file(".wh..wh..opq", ""), // hides the layer below
			file("etc/passwd", "low"), file("etc/keep", "low"), file("cache/a", "low"), file("cache/b", "low"),
			file("tool/x", "low"), file("gone/x", "low"), file("becomes-dir", "low"), file("becomes-file/x", "low")),
		tarOf(t, file("etc/.wh.passwd", ""), file(".wh.gone", ""),
			directory("cache", 0o755), file("cache/.wh..wh..opq", ""), file("cache/new", "high"),
			file(".wh.tool", ""), file("tool/y", "high"),
			file("becomes-dir/x", "high"), file("becomes-file", "high")),
	))
	want := []string{
		`becomes-dir/`, `becomes-dir/x "high"`, `becomes-file "high"`,
		`cache/`, `cache/new "high"`, `etc/`, `etc/keep "low"`, `tool/`, `tool/y "high"`,
	}
	for _, c := range []struct {
		name     string
		rootless bool
		uid, gid int // that the process has outside
	}{{"root", false, 0, 0}, {"a plain user in a user namespace", true, 65534, 65534}} {
		t.Run(c.name, func(t *testing.T) {
			if os.Geteuid() != 0 { // nobody else can be had
				if c.uid, c.gid = os.Geteuid(), os.Getegid(); !c.rootless {
					return
				}
			}
			below := must.Get(os.MkdirTemp("", "overlay"))(t)
			t.Cleanup(func() { assert.NoError(t, os.RemoveAll(below)) })
			require.NoError(t, os.Chown(below, c.uid, c.gid))
			program := copyForAll(t)
			as := func(role string, stdin io.Reader) *exec.Cmd {
				cmd := other(t, role, filepath.Join(below, "store"), below, stdin)
				cmd.Path, cmd.Args[2] = program, fmt.Sprint(c.rootless)
				cmd.SysProcAttr = &syscall.SysProcAttr{}
				if os.Geteuid() == 0 {
					cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(c.uid), Gid: uint32(c.gid)}
				}
				return cmd
			}
			out, err := as("load", strings.NewReader(string(packed))).CombinedOutput()
			require.NoError(t, err, "%s", out)
			cmd := as("overlay", nil)
			cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS
			if c.rootless {
				cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
				cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: c.uid, Size: 1}}
				cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: c.gid, Size: 1}}
				cmd.SysProcAttr.Credential = &syscall.Credential{NoSetGroups: true} // root inside
			}
			var said strings.Builder
			cmd.Stderr = &said
			out, err = cmd.Output()
			require.NoError(t, err, "%v: %s", err, said.String())
			got := strings.Split(strings.TrimSpace(string(out)), "\n")
			assert.Equal(t, want, got, "the image holds\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		})
	}
}

// copyForAll copies this program to where every user may run it.
func copyForAll(t *testing.T) string {
	program := must.Get(os.Executable())(t)
	dir := must.Get(os.MkdirTemp("", "program"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	content := must.Get(os.ReadFile(program))(t)
	to := filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(to, content, 0o755))
	return to
}

func TestManyLoadTheSameImageAtOnce(t *testing.T) {
	dir := t.TempDir()
	var low []tarEntry
	for i := range 300 {
		low = append(low, file(fmt.Sprintf("dir/%d", i), strings.Repeat("x", i)))
	}
	image := imageOf(t, tarOf(t, low...), tarOf(t, file("high", "1")))
	packed := save(t, "web", image)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			out, err := other(t, "load", dir, "", strings.NewReader(string(packed))).CombinedOutput()
			assert.NoError(t, err, "%v: %s", err, out)
		})
	}
	for range 8 {
		group.Go(func() {
			s, err := Open(Options{Dir: dir, Platform: amd64, Rootless: os.Geteuid() != 0})
			if err != nil {
				t.Error(err)
				return
			}
			images, err := s.Load(t.Context(), strings.NewReader(string(packed)), nil)
			if err != nil {
				t.Error(err)
				return
			}
			held, err := s.Rootfs(t.Context(), images[0].ID)
			if err != nil {
				t.Error(err)
				return
			}
			defer held.Release()
			got, err := tree(held.Layers[1])
			assert.True(t, err == nil && len(got) == 301, "the lower layer holds %d entries, %v; want 301", len(got), err)
		})
	}
	group.Wait()
	s := open(t, dir)
	assert.Len(t, must.Get(s.List())(t), 1)
	assert.Len(t, namesIn(t, s.layersDir()), 2, "the layers")
	assert.Len(t, namesIn(t, filepath.Join(dir, "tmp")), 0, "is left")
}

func TestManyLoadAndPruneAtOnce(t *testing.T) {
	dir := t.TempDir()
	shared := tarOf(t, file("shared", "1"))
	var group sync.WaitGroup
	for i := range 4 {
		packed := save(t, fmt.Sprintf("web:%d", i), imageOf(t, shared, tarOf(t, file("own", fmt.Sprint(i)))))
		group.Go(func() {
			s, err := Open(Options{Dir: dir, Platform: amd64, Rootless: os.Geteuid() != 0})
			if err != nil {
				t.Error(err)
				return
			}
			for range 5 {
				_, err := s.Load(t.Context(), strings.NewReader(string(packed)), nil)
				assert.NoError(t, err)
				_, err = s.Prune(t.Context(), func(image Image) bool { return !slices.Contains(image.Names, "web:0") })
				assert.NoError(t, err)
			}
		})
	}
	group.Wait()
	s := open(t, dir)
	for i := 1; i < 4; i++ {
		image, err := s.Find(fmt.Sprintf("web:%d", i))
		if err != nil {
			t.Error(err)
			continue
		}
		held := lease(t, s, image.ID)
		checkTree(t, held.Layers[0], fmt.Sprintf("own %q", fmt.Sprint(i)))
		checkTree(t, held.Layers[1], `shared "1"`)
	}
}

func TestTheIndexIsReadAsOthersWriteIt(t *testing.T) {
	dir := t.TempDir()
	one, two := open(t, dir), open(t, dir)
	packed := save(t, "web", imageOf(t, tarOf(t, file("a", "1"))))
	for range 3 {
		image := load(t, one, packed)
		found := must.Get(two.Find("web"))(t)
		require.Equal(t, image.ID, found.ID, "found %s; want %s", found.ID, image.ID)
		must.Get(two.Prune(t.Context(), func(Image) bool { return false }))(t)
		require.Error(t, must.Fail(one.Find("web")), "it is still found")
	}
	raw := must.Get(os.ReadFile(one.indexFile()))(t)
	var left index
	err := json.Unmarshal(raw, &left)
	assert.True(t, err == nil && len(left.Names)+len(left.Images)+len(left.Layers) == 0, "the index is %s, %v; want an empty one", raw, err)
}
