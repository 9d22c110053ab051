package kubernetes

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/internal/must"
)

// server answers as an API server does. A request with "watch" is one to watch, one with "log" or
// "log follow" asks for a log, and "DELETE" is followed by a name. An answer that is an error never
// came, and one that is a reader is what is read.
type server func(request string) (code int, answer any)

// lasting is the answer to a watch that ends after so long.
type lasting time.Duration

// RoundTrip implements http.RoundTripper. What is watched and answers with success says nothing,
// for as long as somebody listens.
func (s server) RoundTrip(r *http.Request) (*http.Response, error) {
	request := r.Method
	if r.URL.Query().Get("watch") != "" {
		request = "watch"
	}
	if path.Base(r.URL.Path) == "log" {
		request = "log"
		if r.URL.Query().Get("follow") != "" {
			request += " follow"
		}
	}
	if r.Method == http.MethodDelete {
		request += " " + path.Base(r.URL.Path)
	}
	code, answer := s(request)
	if lost, is := answer.(error); is {
		return nil, lost
	}
	if body, is := answer.(io.Reader); is {
		return &http.Response{StatusCode: code, Body: io.NopCloser(body), Request: r}, nil
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if request == "watch" && code == http.StatusOK {
		from, to := io.Pipe()
		if lasts, is := answer.(lasting); is {
			time.AfterFunc(time.Duration(lasts), func() { _ = to.Close() })
		}
		return &http.Response{StatusCode: code, Header: header, Body: from, Request: r}, nil
	}
	text, err := json.Marshal(answer)
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(bytes.NewReader(text)), Request: r}, err
}

func refusal(code int, reason metav1.StatusReason) (int, any) {
	return code, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(code)}
}

func onServer(t *testing.T, s server) *Engine {
	config := &rest.Config{Host: "https://cluster.example", Transport: s}
	client, err := newAPI(config, "apps")
	succeed(t, err)
	return &Engine{Cluster: &Cluster{
		options: Options{Namespace: "apps"}, config: config, api: client, log: slog.New(slog.DiscardHandler), unconfirmed: confirmation,
	}, idle: shimIdle, life: longestLife, lostFor: lostFor, silence: silenceTimeout, connect: client.attach}
}

func aPod(s corev1.PodStatus) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "apps", UID: "1"},
		Spec: corev1.PodSpec{NodeName: "node-1"}, Status: s,
	}
}

func runOf(t *testing.T, s server, spec engine.Spec, fail context.CancelCauseFunc) *run {
	spec.Args = []string{"x"}
	p, err := newPlan(spec, resolved{pinned: "r/x"}, "r/shim", shimIdle, longestLife)
	succeed(t, err)
	return newRun(onServer(t, s), p, "one", engine.IO{}, fail)
}

// The shim of a Pod waits for all of its files, and would for minutes.
func TestFilesThatCannotBeCopiedEndTheRunAtOnce(t *testing.T) {
	dir := tree(t, "file")
	succeed(t, unix.Mkfifo(filepath.Join(dir, "p"), 0o600))
	synctest.Test(t, func(t *testing.T) {
		r := runOf(t, nil, engine.Spec{Mounts: []engine.Mount{{Source: dir, Target: "/x", ReadOnly: true}}}, func(error) {})
		begun := time.Now()
		err := r.copy(t.Context(), func() (remotecommand.Executor, error) { return silent{answers: true, listens: true}, nil })
		if took := time.Since(begun); took > signEvery || !errors.As(err, new(*engine.SpecError)) || !strings.Contains(err.Error(), "is a FIFO") {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

// Whoever may not watch a Pod any more, or gets no answer, learns from its shim how it goes on.
func TestAProgramRunsOnWhosePodNobodyCanWatch(t *testing.T) {
	for name, watched := range map[string]server{
		"the credentials are old": func(string) (int, any) { return refusal(http.StatusUnauthorized, metav1.StatusReasonUnauthorized) },
		"a right was taken away":  func(string) (int, any) { return refusal(http.StatusForbidden, metav1.StatusReasonForbidden) },
		"the API server is silent": func(string) (int, any) {
			return refusal(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := runOf(t, watched, engine.Spec{}, func(err error) { t.Errorf("%s: %v", name, err) })
			s := r.session(func(io.Writer) {})
			go r.watchOver(t.Context())
			err := s.run(t.Context(), func() (remotecommand.Executor, error) { return silent{answers: true, ends: time.Hour}, nil }, r.ended, r.over)
			assert.True(t, err == nil && s.code == 7 && closed(r.ended), "%s: code %d, %v", name, s.code, err)
		})
	}
}

// What is never heard of again does not keep anybody for ever.
func TestARunEndsThatTheClusterHasEndedForCertain(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{0: longestLife + startTimeout, time.Hour: time.Hour + 2*startTimeout} {
		synctest.Test(t, func(t *testing.T) {
			ctx, fail := context.WithCancelCause(t.Context())
			r := runOf(t, nil, engine.Spec{Timeout: limit}, fail)
			r.begun.Store(true)
			begun := time.Now()
			defer r.outlived().Stop()
			<-ctx.Done()
			err := context.Cause(ctx)
			if took := time.Since(begun); took != want || !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "Pod one: ") || !strings.Contains(err.Error(), "may have done all of its work") {
				t.Errorf("after %s: %v", took, err)
			}
		})
	}
}

func TestWhatKeepsAPodThatIsRemovedIsNamed(t *testing.T) {
	keepers := []string{"example.com/a", "example.com/b"}
	const silent = "node node-1 does not confirm that it has: its program may still run; start the node again"
	for name, c := range map[string]struct {
		phase       corev1.PodPhase
		finalizers  []string
		watches     int // what each watch answers
		says        string
		unconfirmed bool
	}{
		"its node is silent":               {corev1.PodRunning, keepers, http.StatusOK, silent, true},
		"its node is silent, and no watch": {corev1.PodRunning, nil, http.StatusServiceUnavailable, silent, true},
		"its finalizers":                   {corev1.PodSucceeded, keepers, http.StatusOK, "in namespace apps Pod one has ended, and its finalizers keep it: example.com/a, example.com/b", false},
		"its volume":                       {corev1.PodFailed, nil, http.StatusOK, "in namespace apps Pod one has ended, and node node-1 does not let go of what it had, such as a volume", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			grace, now := int64(1), metav1.Now()
			pod := aPod(corev1.PodStatus{Phase: c.phase})
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds, pod.Finalizers = &now, &grace, c.finalizers
			e := onServer(t, func(request string) (int, any) {
				if request == "watch" && c.watches != http.StatusOK {
					return refusal(c.watches, metav1.StatusReasonServiceUnavailable)
				}
				return http.StatusOK, pod
			})
			ctx, cancel := context.WithTimeout(t.Context(), gracePeriod)
			defer cancel()
			err := e.Remove(ctx, "one")
			if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, errUnconfirmed) != c.unconfirmed || strings.Contains(err.Error(), "--force") != c.unconfirmed {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// A scheduler that has not heard yet of a claim that was made just now is not believed.
func TestAClaimThatIsMissingForLongIsAnError(t *testing.T) {
	ready := state(mainContainer, ended(0, "Completed"))
	for name, c := range map[string]struct {
		condition string // of a Pod that waits
		comes     time.Duration
		says      string
	}{
		"it is not there":                   {`0/1 nodes are available: persistentvolumeclaim "data" not found. not found`, time.Hour, "the claim data, which a plug names, cannot be used: persistentvolumeclaim \"data\" not found in namespace apps: make it, or name another one"},
		"it ends":                           {`persistentvolumeclaim "data" is being deleted`, time.Hour, "\"data\" is being deleted in namespace apps"},
		"the scheduler learns of it late":   {`persistentvolumeclaim "data" not found`, claimTimeout / 2, ""},
		"what is missing is room on a node": {"0/1 nodes are available: 1 Insufficient memory.", claimTimeout * 2, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, fail := context.WithCancelCause(t.Context())
			begun := time.Now()
			r := runOf(t, func(request string) (int, any) {
				if request == "watch" { // which ends, so that it is asked again
					return refusal(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
				}
				if time.Since(begun) < c.comes {
					return http.StatusOK, aPod(unscheduled(c.condition))
				}
				return http.StatusOK, aPod(ready)
			}, engine.Spec{}, fail)
			r.watchOver(ctx)
			err := context.Cause(ctx)
			if c.says == "" && err == nil && r.lastErr == nil {
				return
			}
			if took := time.Since(begun); c.says == "" || err == nil || !strings.Contains(err.Error(), c.says) || !errors.As(err, new(*engine.SpecError)) || took < claimTimeout || took > claimTimeout+retryAfter {
				t.Errorf("%s: after %s: %v", name, took, err)
			}
		})
	}
}

// A registry that is started anew, or a busy node, is no reason to give a run up, and one that stays so is.
func TestWhatANodeTriesAgainHasSomeTime(t *testing.T) {
	pulls := func(at time.Duration) corev1.PodStatus {
		return state(prepareContainer, waiting([]string{"ErrImagePull", "ImagePullBackOff"}[int(at.Seconds()/10)%2]))
	}
	busy := func(time.Duration) corev1.PodStatus { return state(mainContainer, waiting("CreateContainerError")) }
	for name, c := range map[string]struct {
		is    func(at time.Duration) corev1.PodStatus
		until time.Duration
		error error
		says  string // "" is that it goes on
	}{
		"a registry comes back": {is: pulls, until: retryTimeout - 10*time.Second},
		"a registry stays away": {pulls, time.Hour, engine.ErrNoImage, "the cluster cannot pull registry.example/x@sha256:1: "},
		"a node is less busy":   {is: busy, until: retryTimeout - 10*time.Second},
		"a node stays busy":     {busy, time.Hour, nil, "CreateContainerError: the message"},
		"a claim comes, and a registry": {is: func(at time.Duration) corev1.PodStatus {
			if at < claimTimeout/2 {
				return unscheduled(`persistentvolumeclaim "data" not found`)
			}
			return pulls(at)
		}, until: time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, fail := context.WithCancelCause(t.Context())
			begun := time.Now()
			r := runOf(t, func(request string) (int, any) {
				if request == "watch" { // which ends, so that it is asked again
					return refusal(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
				}
				if at := time.Since(begun); at < c.until {
					return http.StatusOK, aPod(c.is(at))
				}
				return http.StatusOK, aPod(state(mainContainer, ended(0, "Completed")))
			}, engine.Spec{}, fail)
			r.watchOver(ctx)
			err, took := context.Cause(ctx), time.Since(begun)
			switch {
			case c.says == "" && (err != nil || r.lastErr != nil):
				t.Errorf("%s: after %s: %v, %v", name, took, err, r.lastErr)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || took != retryTimeout || c.error != nil && !errors.Is(err, c.error)):
				t.Errorf("%s: after %s: %v", name, took, err)
			}
		})
	}
}

// tree makes files, by their paths; those that end in a slash are directories.
func tree(t *testing.T, files ...string) (dir string) {
	dir = t.TempDir()
	for _, file := range files {
		at := filepath.Join(dir, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		var err error
		if strings.HasSuffix(file, "/") {
			err = os.MkdirAll(at, 0o750)
		} else {
			err = os.WriteFile(at, []byte(file), 0o600)
		}
		require.NoError(t, err)
	}
	return dir
}

func packedNames(t *testing.T, c *copied) (names []string) {
	return slices.Sorted(maps.Keys(packedModes(t, c)))
}

func packedModes(t *testing.T, c *copied) map[string]int64 {
	modes := map[string]int64{}
	var packed bytes.Buffer
	require.NoError(t, c.pack(&packed))
	for files := tar.NewReader(&packed); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return modes
		}
		require.NoError(t, err)
		modes[header.Name] = header.Mode
	}
}

func TestWhoRunsInAPodMayReadWhatIsCopiedIntoIt(t *testing.T) {
	dir := tree(t, "secret", "sub/program")
	succeed(t, os.Chmod(filepath.Join(dir, "sub"), 0o700), os.Chmod(filepath.Join(dir, "sub", "program"), 0o740), os.Chmod(dir, 0o711))
	owners := map[string]int64{"0/": 0o711, "0/secret": 0o600, "0/sub/": 0o700, "0/sub/program": 0o740}
	for user, want := range map[string]map[string]int64{
		"": owners, "root": owners, "0:0": owners,
		"someone": {"0/": 0o755, "0/secret": 0o644, "0/sub/": 0o755, "0/sub/program": 0o755},
	} {
		p, err := newPlan(engine.Spec{Args: []string{"x"}, User: user, Mounts: []engine.Mount{{Source: dir, Target: "/w", ReadOnly: true}}}, resolved{}, "r/shim", shimIdle, longestLife)
		succeed(t, err)
		_, err = p.pod(Options{PodSecurity: Baseline})
		succeed(t, err)
		assert.Equal(t, want, packedModes(t, p.copied), "as user %q", user)
	}
}

func TestAPodGetsWhatItMaySee(t *testing.T) {
	dir := tree(t, "open", "sub/file", "sub/.deployster/log", "kept/secret", "kept/mine/other", "empty/")
	require.NoError(t, os.Symlink("open", filepath.Join(dir, "link")))
	got := packedNames(t, &copied{
		mounts: []engine.Mount{{Source: dir, Target: "/w"}, {Source: filepath.Join(dir, "link"), Target: "/one"}},
		hidden: []string{"/w/kept"},
		inner:  []string{"/w", "/one", "/w/kept/mine", "/w/new/place"},
	})
	want := []string{
		"0/", "0/empty/", "0/kept/", "0/kept/mine/", "0/link", "0/new/", "0/new/place/", "0/open", "0/sub/", "0/sub/.deployster/", "0/sub/file",
		"1",
		"2/", "2/mine/",
	}
	assert.True(t, slices.Equal(got, want), "packed\n%q, want\n%q", got, want)
}

func TestWhatCannotBeCopiedIsRefused(t *testing.T) {
	dir := tree(t, "large")
	require.NoError(t, os.Truncate(filepath.Join(dir, "large"), copiedBytes+1))
	short, pipe := t.TempDir(), t.TempDir()
	socket := filepath.Join(short, "s")
	listener := must.Get(net.Listen("unix", socket))(t)
	defer func() { _ = listener.Close() }()
	require.NoError(t, unix.Mkfifo(filepath.Join(pipe, "p"), 0o600))
	for source, says := range map[string]string{dir: "more than 64 MiB", socket: "is a socket", short: "/s is a socket", pipe: "/p is a FIFO", filepath.Join(pipe, "p"): "is a FIFO"} {
		c := &copied{mounts: []engine.Mount{{Source: source, Target: "/x"}}}
		err := c.pack(io.Discard)
		assert.True(t, err != nil && strings.Contains(err.Error(), says) && errors.As(err, new(*engine.SpecError)) &&
			!strings.Contains(err.Error(), "--copy-workspace"), "%s: %v, want %q", source, err, says)
		c.workspace = true
		if err := c.pack(io.Discard); says == "more than 64 MiB" && !strings.Contains(err.Error(), "leave --copy-workspace (of a host: copy_workspace) away") {
			t.Errorf("%s: %v", source, err)
		}
	}
}

func TestNothingIsCopiedThroughALink(t *testing.T) {
	secret := tree(t, "key", "kept/key")
	dir := tree(t, "sub/file")
	for link, to := range map[string]string{"a": filepath.Join(secret, "key"), "b": filepath.Join(secret, "kept"), "sub/c": "../../..", "d": "nowhere"} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	got := packedNames(t, &copied{mounts: []engine.Mount{{Source: dir, Target: "/w"}}})
	assert.Equal(t, []string{"0/", "0/a", "0/b", "0/d", "0/sub/", "0/sub/c", "0/sub/file"}, got, "packed")
}

// A link on the way to a plug may be another one when the Pod is there.
func TestALinkIsFollowedToNothingThatIsProtected(t *testing.T) {
	dir := tree(t, "open/file", ".deployster/protected/key")
	plug := filepath.Join(dir, "plug")
	for _, to := range []string{".deployster", ".deployster/protected", ".deployster/protected/key"} {
		succeed(t, os.Symlink("open", plug))
		c := &copied{mounts: []engine.Mount{{Source: plug, Target: "/x"}}}
		succeed(t, c.check(), os.Remove(plug), os.Symlink(to, plug))
		var packed bytes.Buffer
		for attempt, err := range map[string]error{"checked": c.check(), "packed": c.pack(&packed)} {
			if !errors.As(err, new(*engine.SpecError)) || !strings.Contains(err.Error(), "it is within .deployster") || strings.Contains(packed.String(), "key") {
				t.Errorf("%s is %s: %v", to, attempt, err)
			}
		}
		succeed(t, os.Remove(plug))
	}
}

// Somebody who can write to a directory may replace what is in it between two looks.
func TestWhatIsReplacedWhileItIsCopiedIsRefusedAndWhatIsRemovedLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		replace func(t *testing.T, dir, secret string)
		says    string // "" is nothing: it is left out
	}{
		"a file by a link to one below it": {func(t *testing.T, dir, _ string) {
			succeed(t, os.Remove(filepath.Join(dir, "file")), os.Symlink("hidden/key", filepath.Join(dir, "file")))
		}, "file was replaced while it was copied"},
		"a file by a link to one elsewhere": {func(t *testing.T, dir, secret string) {
			succeed(t, os.Remove(filepath.Join(dir, "file")), os.Symlink(secret, filepath.Join(dir, "file")))
		}, "escapes"},
		"a file by a FIFO": {func(t *testing.T, dir, _ string) {
			succeed(t, os.Remove(filepath.Join(dir, "file")), unix.Mkfifo(filepath.Join(dir, "file"), 0o600))
		}, "FIFO"},
		"a directory by a link to another": {func(t *testing.T, dir, _ string) {
			succeed(t, os.RemoveAll(filepath.Join(dir, "sub")), os.Symlink("hidden", filepath.Join(dir, "sub")))
		}, "sub was replaced while it was copied"},
		"a file by nothing":      {func(t *testing.T, dir, _ string) { succeed(t, os.Remove(filepath.Join(dir, "file"))) }, ""},
		"a directory by nothing": {func(t *testing.T, dir, _ string) { succeed(t, os.RemoveAll(filepath.Join(dir, "sub"))) }, ""},
	} {
		dir, secret := tree(t, "file", "hidden/key", "sub/file"), filepath.Join(tree(t, "key"), "key")
		file, err := os.Lstat(filepath.Join(dir, "file"))
		succeed(t, err)
		sub, err := os.Lstat(filepath.Join(dir, "sub"))
		succeed(t, err)
		root, err := os.OpenRoot(dir)
		succeed(t, err)
		c.replace(t, dir, secret)
		var packed bytes.Buffer
		p := &packer{tar: tar.NewWriter(&packed), copied: &copied{}}
		err = errors.Join(p.entry(source{root, "file", dir + "/file", "0/file", "/w/file"}, file, nil), p.entry(source{root, "sub", dir + "/sub", "0/sub", "/w/sub"}, sub, map[string]bool{}))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) || strings.Contains(packed.String(), "key") {
			t.Errorf("%s: %v, want %q; it packed %q", name, err, c.says, packed.String())
		}
		succeed(t, root.Close())
	}
}

func TestWhatIsCopiedIsWhatWasChecked(t *testing.T) {
	dir, other := tree(t, "plug/file"), tree(t, "key")
	plug := filepath.Join(dir, "plug")
	mounts, err := engine.Finder{}.Pin([]engine.Mount{{Source: plug, Target: "/x"}})
	succeed(t, err, os.Rename(plug, plug+".old"), os.Rename(other, plug))
	var packed bytes.Buffer
	assert.ErrorIs(t, (&copied{mounts: mounts}).pack(&packed), engine.ErrReplaced)
	assert.NotContains(t, packed.String(), "key")
}

func succeed(t *testing.T, errs ...error) { require.NoError(t, errors.Join(errs...)) }

func TestWhatIsHiddenHasAPlaceInWhatIsCopied(t *testing.T) {
	dir := tree(t, "kept/key", "sub/.deployster/below/key")
	p, err := newPlan(engine.Spec{Mounts: []engine.Mount{{Source: dir, Target: "/w", ReadOnly: true}}, Hide: []string{"/w/kept", "/w/sub/.deployster/below"}},
		resolved{}, "r/shim", shimIdle, longestLife)
	succeed(t, err)
	want := []string{"0/", "0/kept/", "0/sub/", "0/sub/.deployster/", "0/sub/.deployster/below/", "1/", "2/"}
	assert.Equal(t, want, packedNames(t, p.copied), "packed")
}

// attachment is what happens when somebody attaches.
type attachment func(remotecommand.StreamOptions) error

func (a attachment) Stream(o remotecommand.StreamOptions) error { return a(o) }

func (a attachment) StreamWithContext(_ context.Context, o remotecommand.StreamOptions) error {
	return a(o)
}

func say(to io.Writer, kind entrypoint.Kind, number int, content string) {
	_, _ = io.WriteString(to, message(kind, number, content))
}

// message is one of a shim, whose content has no bytes that it would write otherwise.
func message(kind entrypoint.Kind, number int, content string) string {
	return fmt.Sprintf("\x10%c%d %s\x10.\n", kind, number, content)
}

// listen reads what the caller gives up to a text.
func listen(from io.Reader, until string) {
	var heard []byte
	for !strings.Contains(string(heard), until) {
		piece := make([]byte, 100)
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		heard = append(heard, piece[:n]...)
	}
}

// connect runs a session in which the attempts to attach go as they are given.
func connect(t *testing.T, attempts ...attachment) (s *session, stdout string, fed int, err error) {
	var out bytes.Buffer
	s = newSession(&out, io.Discard, func(to io.Writer) {
		fed++
		_ = entrypoint.Send(to, strings.NewReader("the input"), true, func() error { return nil })
	})
	gone := make(chan struct{})
	next := func() (remotecommand.Executor, error) {
		if len(attempts) == 0 {
			close(gone)
			return nil, errors.New("container not found")
		}
		a := attempts[0]
		attempts = attempts[1:]
		return a, nil
	}
	err = s.run(t.Context(), next, gone, gone)
	return s, out.String(), fed, err
}

func TestASessionEndsWhenTheShimHasSaidHow(t *testing.T) {
	notYet := func(o remotecommand.StreamOptions) error {
		_, _ = o.Stdin.Read(make([]byte, 4)) // a call that nobody hears
		return errors.New("container not found")
	}
	whole := func(o remotecommand.StreamOptions) error {
		say(o.Stdout, entrypoint.Attached, 0, "")
		listen(o.Stdin, "the input")
		say(o.Stdout, entrypoint.Stdout, 0, "out")
		say(o.Stdout, entrypoint.Ended, 1, "7")
		return errors.New("cut, but all was said")
	}
	s, stdout, fed, err := connect(t, notYet, notYet, whole)
	assert.True(t, err == nil && stdout == "out" && s.code == 7 &&
		fed == 1, "code %d, stdout %q, fed %d times, %v", s.code, stdout, fed, err)
}

func TestASessionThatIsCutShortIsNoSuccess(t *testing.T) {
	cut := func(o remotecommand.StreamOptions) error {
		say(o.Stdout, entrypoint.Attached, 0, "")
		listen(o.Stdin, "the input")
		say(o.Stdout, entrypoint.Stdout, 0, "half of ")
		return nil // as attachments end whose last output is lost
	}
	_, _, _, err := connect(t, cut)
	assert.ErrorIs(t, err, errBroken, "a cut output")
	_, _, fed, err := connect(t)
	assert.True(t, errors.Is(err, errGone) && fed == 0, "a container that has ended: %v, fed %d times", err, fed)
	crash := func(o remotecommand.StreamOptions) error {
		say(o.Stdout, entrypoint.Attached, 0, "")
		_, _ = o.Stderr.Write([]byte("panic: no"))
		return nil
	}
	_, _, _, err = connect(t, crash)
	assert.ErrorContains(t, err, "panic: no", "a shim that crashed")
}

// silent answers once, if at all, and then nothing for long or for ever, as from behind a network that is gone.
type silent struct {
	attachment
	answers bool
	listens bool          // to its input, for as long
	ends    time.Duration // after which it says that its program has; 0 is never
}

func (s silent) StreamWithContext(ctx context.Context, o remotecommand.StreamOptions) error {
	if s.answers {
		say(o.Stdout, entrypoint.Attached, 0, "")
	}
	if s.listens {
		go func() { _, _ = io.Copy(io.Discard, o.Stdin) }()
	}
	var ends <-chan time.Time
	if s.ends > 0 {
		ends = time.After(s.ends)
	}
	select {
	case <-ends:
		say(o.Stdout, entrypoint.Ended, 0, "7")
	case <-ctx.Done():
	}
	return ctx.Err()
}

func TestASessionEndsWithItsContainerThoughItsConnectionStays(t *testing.T) {
	for answers, want := range map[bool]error{true: errBroken, false: errGone} {
		synctest.Test(t, func(t *testing.T) {
			s := newSession(io.Discard, io.Discard, func(io.Writer) {})
			gone := make(chan struct{})
			time.AfterFunc(time.Hour, func() { close(gone) })
			begun := time.Now()
			err := s.run(t.Context(), func() (remotecommand.Executor, error) { return silent{answers: answers}, nil }, gone, gone)
			if took := time.Since(begun); !errors.Is(err, want) || took < time.Hour+lostTimeout || took > time.Hour+2*lostTimeout {
				t.Errorf("after %s: %v, want %v", took, err, want)
			}
		})
	}
}

func TestAttemptsThatCostAClusterMuchBecomeFewer(t *testing.T) {
	attempts := 0
	for waited := time.Duration(0); waited < time.Minute; waited += attachAfter(waited) {
		attempts++
	}
	assert.True(t, attempts <= 90, "there are %d in a minute", attempts)
	assert.Equal(t, attachLeast, attachAfter(800*time.Millisecond), "a Pod that starts as usual waits")
}

// refused is the error of a request while no API server listens.
var refused = &net.OpError{Op: "dial", Net: "tcp", Err: unix.ECONNREFUSED}

func TestWhoFollowsAPodWaitsForItsAPIServer(t *testing.T) {
	for name, c := range map[string]struct {
		down time.Duration
		ends bool
	}{"it comes back": {restartTimeout / 2, true}, "it is gone for longer": {2 * restartTimeout, false}} {
		synctest.Test(t, func(t *testing.T) {
			begun, lives := time.Now(), 10*time.Minute
			e := onServer(t, func(request string) (int, any) {
				switch at := time.Since(begun); {
				case request == "watch":
					return http.StatusOK, lasting(lives)
				case at < lives:
					return http.StatusOK, aPod(corev1.PodStatus{Phase: corev1.PodRunning})
				case at < lives+c.down:
					return 0, refused
				}
				return http.StatusOK, aPod(corev1.PodStatus{Phase: corev1.PodSucceeded})
			})
			_, err := e.follow(t.Context(), "one", over)
			took := time.Since(begun) - lives
			assert.True(t, (err == nil) == c.ends && (err == nil || errors.Is(err, unix.ECONNREFUSED)) &&
				took <= min(c.down, restartTimeout)+2*mostPause, "%s: after %s: %v", name, took, err)
		})
	}
}

func TestAnAPIServerThatEndsWatchesIsLeftAlone(t *testing.T) {
	for name, lasts := range map[string]time.Duration{"at once": 0, "after a second": time.Second} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			e := onServer(t, func(request string) (int, any) {
				if asked++; request == "watch" {
					return http.StatusOK, lasting(lasts)
				}
				return http.StatusOK, aPod(corev1.PodStatus{Phase: corev1.PodRunning})
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := e.follow(ctx, "one", over); !errors.Is(err, context.DeadlineExceeded) || asked > 50 {
				t.Errorf("%s: it was asked %d times in a minute; %v", name, asked, err)
			}
		})
	}
}

func TestAPodIsRemovedOnceTheAPIServerIsBack(t *testing.T) {
	for name, c := range map[string]struct {
		lost    error // what requests get while it is not there
		down    time.Duration
		removed bool
	}{
		"it refuses connections":         {refused, restartTimeout / 2, true},
		"it breaks connections off":      {io.EOF, restartTimeout / 2, true},
		"it is off":                      {refused, time.Hour, false},
		"whoever asks may not remove it": {nil, time.Hour, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, removed := time.Now(), false
			e := onServer(t, func(request string) (int, any) {
				switch {
				case time.Since(begun) < c.down && c.lost != nil:
					return 0, c.lost
				case c.lost == nil:
					return refusal(http.StatusForbidden, metav1.StatusReasonForbidden)
				case removed:
					return refusal(http.StatusNotFound, metav1.StatusReasonNotFound)
				}
				removed = request == "DELETE one"
				return http.StatusOK, aPod(corev1.PodStatus{Phase: corev1.PodRunning})
			})
			e.discard(t.Context(), "one", false)
			if took := time.Since(begun); removed != c.removed || took > gracePeriod || c.lost == nil && took > 0 {
				t.Errorf("%s: after %s it is %t that it is removed", name, took, removed)
			}
		})
	}
}

// A Pod that is made, and of which the API server could not say so any more, is not left behind.
func TestAPodIsRemovedWhoseCreationIsNotConfirmed(t *testing.T) {
	for name, c := range map[string]struct {
		answer func() (int, any)
		made   bool
	}{
		"the answer is lost":   {func() (int, any) { return 0, io.ErrUnexpectedEOF }, true},
		"the answer is no Pod": {func() (int, any) { return http.StatusCreated, "<html>" }, true},
		"its storage is late":  {func() (int, any) { return refusal(http.StatusInternalServerError, metav1.StatusReasonInternalError) }, true},
		"nobody was asked":     {func() (int, any) { return 0, refused }, false},
		"its name is there":    {func() (int, any) { return refusal(http.StatusConflict, metav1.StatusReasonAlreadyExists) }, true},
		"it is refused":        {func() (int, any) { return refusal(http.StatusForbidden, metav1.StatusReasonForbidden) }, false},
		"it is there":          {func() (int, any) { return http.StatusCreated, aPod(corev1.PodStatus{}) }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			removals := 0
			e := onServer(t, func(request string) (int, any) {
				switch {
				case request == http.MethodPost:
					return c.answer()
				case request == "DELETE one" && removals == 0:
					removals++
					return http.StatusOK, aPod(corev1.PodStatus{})
				}
				return refusal(http.StatusNotFound, metav1.StatusReasonNotFound)
			})
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // also where the run was cancelled
			_, err := e.create(ctx, aPod(corev1.PodStatus{}))
			assert.True(t, (removals > 0) == c.made && (err == nil) == (name == "it is there") &&
				!apierrors.IsNotFound(err), "%s: %d removals, %v", name, removals, err)
		})
	}
}

// An API server that counts Pods for a quota, of which several come at once, refuses some of them with
// a conflict. None of these was made.
func TestAPodIsMadeAgainThatAQuotaCouldNotCount(t *testing.T) {
	for name, c := range map[string]struct{ conflicts, requests int }{"twice": {2, 3}, "for long": {1000, 20}} {
		synctest.Test(t, func(t *testing.T) {
			requests := 0
			e := onServer(t, func(request string) (int, any) {
				assert.Equal(t, http.MethodPost, request, "%s: %s", name, request)
				if requests++; requests <= c.conflicts {
					return refusal(http.StatusConflict, metav1.StatusReasonConflict)
				}
				return http.StatusCreated, aPod(corev1.PodStatus{})
			})
			begun := time.Now()
			_, err := e.create(t.Context(), aPod(corev1.PodStatus{}))
			if (err == nil) != (c.conflicts < c.requests) || requests < min(c.requests, 3) || time.Since(begun) > time.Minute {
				t.Errorf("%s: %v after %d requests and %s", name, err, requests, time.Since(begun))
			}
		})
	}
}
