//go:build linux

package store

import (
	"context"
	"encoding/json"
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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/waittest"
)

// roleVariable makes the test program another process of the store: it does
// what the role says, with the arguments that follow.
const roleVariable = "DEPLOYSTER_STORE_TEST_ROLE"

var roles = map[string]func(s *Store, argument string) error{
	// load loads what comes on stdin.
	"load": func(s *Store, _ string) error {
		_, err := s.Load(context.Background(), os.Stdin, nil)
		return err
	},
	"pull": func(s *Store, ref string) error {
		_, err := s.Pull(context.Background(), ref, nil)
		return err
	},
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
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, dir, fmt.Sprint(os.Geteuid() != 0), argument)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stdin = stdin
	cmd.WaitDelay = waittest.Limit
	return cmd
}

// killed starts the process, and kills it when until returns.
func killed(t *testing.T, cmd *exec.Cmd, until func()) {
	t.Helper()
	var said strings.Builder
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	until()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatalf("it was to be killed and ended before: %v, %s", err, said.String())
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("it was to be killed and ended with %v, %s", err, said.String())
	}
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
			below, err := os.MkdirTemp("", "overlay")
			require.NoError(t, err)
			t.Cleanup(func() {
				assert.NoError(t, os.RemoveAll(below))
			})
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
			if out, err := as("load", strings.NewReader(string(packed))).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
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
			out, err := cmd.Output()
			require.NoError(t, err, "%v: %s", err, said.String())
			if got := strings.Split(strings.TrimSpace(string(out)), "\n"); !slices.Equal(got, want) {
				t.Errorf("the image holds\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
			}
		})
	}
}

// copyForAll copies this program to where every user may run it.
func copyForAll(t *testing.T) string {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "program")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	content, err := os.ReadFile(program)
	require.NoError(t, err)
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
			if out, err := other(t, "load", dir, "", strings.NewReader(string(packed))).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
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
			if got, err := tree(held.Layers[1]); err != nil || len(got) != 301 {
				t.Errorf("the lower layer holds %d entries, %v; want 301", len(got), err)
			}
		})
	}
	group.Wait()
	s := open(t, dir)
	if images, err := s.List(); err != nil || len(images) != 1 {
		t.Errorf("the store lists %v, %v; want one image", images, err)
	}
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
				if _, err := s.Load(t.Context(), strings.NewReader(string(packed)), nil); err != nil {
					t.Error(err)
				}
				if _, err := s.Prune(t.Context(), func(image Image) bool { return !slices.Contains(image.Names, "web:0") }); err != nil {
					t.Error(err)
				}
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
		if found, err := two.Find("web"); err != nil || found.ID != image.ID {
			t.Fatalf("found %s, %v; want %s", found.ID, err, image.ID)
		}
		if _, err := two.Prune(t.Context(), func(Image) bool { return false }); err != nil {
			t.Fatal(err)
		}
		if _, err := one.Find("web"); err == nil {
			t.Fatal("it is still found")
		}
	}
	raw, err := os.ReadFile(one.indexFile())
	require.NoError(t, err)
	var left index
	if err := json.Unmarshal(raw, &left); err != nil || len(left.Names)+len(left.Images)+len(left.Layers) != 0 {
		t.Errorf("the index is %s, %v; want an empty one", raw, err)
	}
}
