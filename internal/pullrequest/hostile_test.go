package pullrequest_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/pullrequest"
	"github.com/deployster-go/deployster/internal/pullrequest/forgetest"
	"github.com/deployster-go/deployster/internal/pullrequest/provider"
	"github.com/deployster-go/deployster/internal/pullrequest/value"
	"github.com/deployster-go/deployster/internal/waittest"
)

func TestFilesThatCannotBeChangedAreSaidSo(t *testing.T) {
	w := newWorld(t, "github")
	w.forge.Commit("main", map[string]string{
		"link.yaml": "->" + file, "out": "->../../../etc", "dir/x.yaml": "a: 1\n", "alias.yaml": "image: &a {tag: 1}\nb: *a\n", "two.yaml": "image: {tag: 1}\n---\nimage: {tag: 1}\n",
		"map.yaml": "image: {tag: {}}\n", "bytes": "\x00\x01\xff",
	}, "")
	for path, why := range map[string]string{
		"none.yaml": "there is no none.yaml in the repository", "link.yaml": "link.yaml is a symbolic link, which is not followed", "out/passwd": "out is a symbolic link", "dir": "dir is not a file, but a directory",
		"shop/prod.yaml/x": "shop/prod.yaml is not a directory", "alias.yaml": "has the anchor &a", "two.yaml": "2 of its documents have image.tag", "map.yaml": "image.tag is a mapping", "bytes": "not text in UTF-8",
	} {
		w.place.Values[0].File = path
		w.refused("2", why)
	}
	assert.Empty(t, w.forge.Head(branch), "something was pushed")
	assert.Empty(t, w.forge.Pulls())
}

// However large the other files are, and however little the server can leave out, the file is read.
// A server that sends objects by their hashes sends that one file and the directories.
func TestALargeRepositoryIsReadAsFarAsItIsNeeded(t *testing.T) {
	const large, larger = 100 << 10, 1 << 20
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(size int) string {
		text := make([]byte, size)
		for i := range text {
			text[i] = 'a' + byte(random.IntN(26))
		}
		return string(text)
	}
	content := before + "# " + noise(large) + "\n"
	files := map[string]string{file: content, "other.bin": noise(larger)}
	for i := range 10 {
		files[fmt.Sprintf("small/%d.txt", i)] = noise(50 << 10)
	}
	files["huge.yaml"] = before + "# " + noise(4<<20)
	w := newWorld(t, "gitlab")
	w.place.Provider = ""
	w.forge.Commit("main", files, "")
	for name, c := range map[string]struct {
		filter, any, reachable string
		most                   int // bytes, of which the noise takes about two thirds
	}{
		"objects by hash":           {"true", "true", "false", 80 << 10},
		"reachable objects by hash": {"true", "false", "true", 80 << 10},
		"filters":                   {"true", "false", "false", 1500 << 10},
		"nothing":                   {"false", "false", "false", 4 << 20},
	} {
		w.again()
		w.forge.Configure("uploadpack.allowFilter", c.filter)
		w.forge.Configure("uploadpack.allowAnySHA1InWant", c.any)
		w.forge.Configure("uploadpack.allowReachableSHA1InWant", c.reachable)
		w.forge.Sent()
		w.place.Values[0].File = file
		w.propose("2")
		assert.LessOrEqual(t, w.forge.Sent(), c.most, "%s: bytes that git sent", name)
		assert.True(t, strings.Replace(content, `"1"`, `"2"`, 1) == w.forge.Show(branch, file), "%s: the branch has another file", name)
		assert.Equal(t, file, w.forge.Changed("main", branch))
		w.place.Values[0].File = "huge.yaml"
		w.refused("2", "value image.tag of file huge.yaml on branch main: huge.yaml: it has")
		w.forge.Delete(branch)
	}
	w.forge.Check()
}

// A server may say that it knows filters, and refuse them.
func TestAServerThatRefusesAFilterIsAskedWithout(t *testing.T) {
	for asks, refused := range map[int][]string{2: {"blob:none"}, 4: {"blob:none", "blob:limit"}} {
		w := newWorld(t, "gitlab")
		for _, filter := range refused {
			w.forge.Configure("uploadpackfilter."+filter+".allow", "false")
		}
		w.propose("2")
		w.has("2", 1)
		asked := slices.DeleteFunc(w.forge.Requests(), func(r string) bool { return r != "POST /acme/deploy.git/git-upload-pack" })
		assert.Len(t, asked, asks, "without %v", refused)
	}
}

func TestTheTagOfAnImageIsSet(t *testing.T) {
	w := newWorld(t, "bitbucket")
	w.forge.Commit("main", map[string]string{file: "spec:\n  containers:\n  - {name: web, image: 'localhost:5000/web:1'} # here\n"}, "")
	path := must.Get(value.Parse("spec.containers[name=web].image"))(t)
	w.place.Values[0].Path, w.place.Values[0].Tag = path, true
	w.propose("2")
	assert.Equal(t, "spec:\n  containers:\n  - {name: web, image: 'localhost:5000/web:2'} # here\n", w.forge.Show(branch, file), "the branch")
	w.refused("not a tag", `"not a tag" cannot be the tag of an image`)
}

// A server may send on to another host, with git or with its API: nobody there gets the token.
func TestNobodyGetsTheTokenToWhomAServerSendsOn(t *testing.T) {
	var told atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { told.Add(1) }))
	defer elsewhere.Close()
	for _, part := range []string{"/acme/", "/api/", "git-receive-pack"} {
		w := newWorld(t, "gitea")
		w.forge.Before(func(to http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.String(), part) {
				return false
			}
			http.Redirect(to, r, elsewhere.URL+r.URL.String(), http.StatusTemporaryRedirect)
			return true
		})
		w.refused("2", map[bool]string{true: "sends on to another address (307), which is not followed", false: "redirect"}[part == "/api/"])
		assert.Zero(t, told.Load(), "%s: somebody else was asked", part)
		assert.Len(t, w.forge.Pulls(), 0, "a pull request was opened")
	}
}

func TestAServerThatTellsTheTokenIsNotRepeated(t *testing.T) {
	for _, part := range []string{"/acme/", "/api/"} {
		for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTeapot, http.StatusInternalServerError} {
			w := newWorld(t, "github")
			w.forge.Before(func(to http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, part) {
					return false
				}
				to.WriteHeader(status)
				_, _ = fmt.Fprintf(to, `{"message": "\u001b[31m%s %s"}`, forgetest.Token, r.Header.Get("Authorization"))
				return true
			})
			w.refused("2", "")
		}
	}
}

func TestWithoutATokenNothingIsAsked(t *testing.T) {
	w := newWorld(t, "github")
	outside := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(outside, []byte(forgetest.Token), 0o600))
	at := filepath.Join(w.workspace, "token")
	for name, place := range map[string]func() error{
		"no file":   func() error { return nil },
		"empty":     func() error { return os.WriteFile(at, []byte("\n"), 0o600) },
		"two lines": func() error { return os.WriteFile(at, []byte(forgetest.Token+"\nb\n"), 0o600) },
		"directory": func() error { return os.Mkdir(at, 0o700) },
		"a link":    func() error { return os.Symlink(outside, at) },
		"a pipe":    func() error { return syscall.Mkfifo(at, 0o600) },
		"a way out": func() error { w.place.TokenFile = "../token"; return nil },
		"no variable": func() error {
			w.place.TokenFile, w.place.TokenEnv = "", "TOKEN"
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(at))
			was := w.place
			defer func() { w.place = was }()
			require.NoError(t, place())
			w.refused("2", "token")
		})
	}
	assert.Len(t, w.forge.Requests(), 0, "it was asked")
}

func TestAWrongTokenIsSaidSo(t *testing.T) {
	w := newWorld(t, "github")
	require.NoError(t, os.WriteFile(filepath.Join(w.workspace, "token"), []byte("another"), 0o600))
	w.refused("2", "the server does not know the token, or wants one (401): see token_file or token_env")
	w.place.Base = "trunk"
	require.NoError(t, os.WriteFile(filepath.Join(w.workspace, "token"), []byte(forgetest.Token), 0o600))
	w.refused("2", "the repository has no branch trunk: create it, or name another one (base)")
	w.place.Repository = w.forge.URL + "/acme/none.git"
	w.refused("2", "")
}

func TestARepositoryThatCannotBeReadIsSaidSo(t *testing.T) {
	w := newWorld(t, "github")
	w.forge.Git("init", "-q", "--bare", "--object-format=sha256", "-b", "main", "../sha256.git")
	w.place.Repository = w.forge.URL + "/acme/sha256.git"
	tree := strings.TrimSpace(w.forge.Git("-C", "../sha256.git", "write-tree"))
	commit := strings.TrimSpace(w.forge.Git("-C", "../sha256.git", "commit-tree", "-m", "first", tree))
	w.forge.Git("-C", "../sha256.git", "update-ref", "refs/heads/main", commit)
	w.refused("2", "the repository is one of SHA-256 (object-format=sha256), which Deployster cannot read: use one of SHA-1")
	w.forge.Git("init", "-q", "--bare", "-b", "main", "../empty.git")
	w.place.Repository = w.forge.URL + "/acme/empty.git"
	w.refused("2", "the repository has no commit yet: make a first one on its base branch")
	w.forge.Before(func(to http.ResponseWriter, _ *http.Request) bool {
		_, _ = to.Write([]byte("<html>welcome</html>"))
		return true
	})
	w.refused("2", "the server does not answer as git: check the URL (repository)")
}

// A pack that makes much of little is refused by package remote.
func TestWhatAServerSendsIsBounded(t *testing.T) {
	w := newWorld(t, "github")
	for name, c := range map[string]struct {
		body []byte
		why  string
	}{
		"half a pack": {[]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x35x\x9c"), "reading what the server sent"},
		"no pack":     {[]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x07"), "reading what the server sent"},
		"many":        {[]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"), "too large"},
		"nothing":     {nil, ""},
		"too much":    {bytes.Repeat([]byte("x"), 65<<20), "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			w.forge.Before(func(to http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "git-upload-pack") {
					return false
				}
				_, _ = to.Write([]byte("00000008NAK\n"))
				_, _ = to.Write(c.body)
				return true
			})
			w.refused("2", c.why)
		})
	}
	w.forge.Before(nil)
	w.propose("2")
}

// The error has the server's own words, of a hook of a person as of a forge that protects branches.
func TestAServerThatRefusesAPushSaysWhy(t *testing.T) {
	w := newWorld(t, "gitea")
	said := "the server refused the push (pre-receive hook declined): "
	for words, want := range map[string]string{
		"refs may not be made here": said + "refs may not be made here",
		"error: GH006: Protected branch update failed for refs/heads/x.\nerror: \nerror: Commits must have verified signatures.": said +
			"error: GH006: Protected branch update failed for refs/heads/x. / error: Commits must have verified signatures.",
		"=====\n\x1b[31mno\x1b[0m\n=====":                     said + "[31mno [0m",
		"checking 1%\rchecking 99%\ndone: " + forgetest.Token: said + "checking 99% / done: (token)",
		strings.Repeat("no ", 5000):                           "no no …",
		"":                                                    "the server refused the push: pre-receive hook declined",
	} {
		w.forge.Refuse(words)
		w.refused("2", want)
	}
	w.forge.Refuse("")
	w.forge.Before(func(to http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "git-receive-pack") {
			return false
		}
		to.WriteHeader(http.StatusForbidden)
		_, _ = to.Write([]byte("Permission to acme/deploy.git denied to ci.\n"))
		return true
	})
	w.refused("2", "it needs to read and write the contents of the repository; the server says: Permission to acme/deploy.git denied to ci.")
}

// A server has said something, and then the connection is lost: that is no refusal. The branch shows what became of the push.
func TestAConnectionThatIsLostInAPushIsNoRefusal(t *testing.T) {
	progress := func(text string) string { return fmt.Sprintf("%04x\x02%s", len(text)+5, text) }
	for name, c := range map[string]struct {
		pushed, gone bool
		said, want   string
	}{
		"nothing was said":         {want: "the connection was lost before the server answered (EOF), and branch " + branch + " is as it was"},
		"an empty answer":          {said: " ", want: "the connection was lost before the server answered (unexpected EOF), and branch "},
		"it was at work":           {said: progress("checking 1%\n"), want: "the connection was lost before the server answered (unexpected EOF), and branch "},
		"it broke off":             {said: "00", want: "the connection was lost before the server answered (unexpected EOF), and branch "},
		"it ended with an error":   {said: "000e\x03too late\n", want: "the server refused the push: too late"},
		"it is gone":               {said: progress("checking\n"), gone: true, want: "so it is unknown whether branch " + branch + " has changed; the next try looks again: the server answered 502"},
		"it had pushed":            {pushed: true, said: progress("done\n")},
		"it had pushed, and is so": {pushed: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "gitea")
			lost := false
			w.forge.Before(func(to http.ResponseWriter, r *http.Request) bool {
				switch {
				case lost && c.gone:
					to.WriteHeader(http.StatusBadGateway)
					return true
				case lost || r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "git-receive-pack"):
					return false
				}
				lost = true
				if c.pushed {
					again := must.Get(http.NewRequestWithContext(r.Context(), r.Method, w.forge.URL+r.URL.Path, r.Body))(t)
					again.Header = r.Header.Clone()
					require.NoError(t, must.Get(http.DefaultClient.Do(again))(t).Body.Close())
				}
				if c.said != "" {
					_, _ = to.Write([]byte(strings.TrimLeft(c.said, " ")))
					_ = http.NewResponseController(to).Flush()
				}
				if c.said == " " || strings.Contains(c.said, "too late") {
					return true
				}
				panic(http.ErrAbortHandler)
			})
			if c.want != "" {
				w.refused("2", c.want)
			}
			w.forge.Before(nil)
			w.gives("2", pullrequest.Proposed, 1)
			w.has("2", 1)
		})
	}
}

// Somebody pushes to the branch between the moment at which it is read and the push.
func TestWhoPushesAtTheSameTimeIsNotOverwritten(t *testing.T) {
	w := newWorld(t, "gitea")
	w.propose("2")
	w.forge.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "git-receive-pack") {
			w.forge.Before(nil)
			w.forge.Commit(branch, map[string]string{"README": "at the same time"}, "")
		}
		return false
	})
	w.refused("3", "was changed by somebody else at the same time")
	assert.Equal(t, "at the same time", w.forge.Show(branch, "README"), "it was overwritten")
}

// A server that does not answer holds nobody up who is to end, and others of the same branch
// wait for their turn no longer than they want.
func TestAServerThatDoesNotAnswerIsLeft(t *testing.T) {
	for _, part := range []string{"info/refs", "git-upload-pack", "/api/", "git-receive-pack"} {
		w := newWorld(t, "gitea")
		asked := make(chan struct{}, 10)
		release := make(chan struct{})
		w.forge.Before(func(_ http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, part) || r.Method == http.MethodGet && part == "git-receive-pack" {
				return false
			}
			asked <- struct{}{}
			select {
			case <-r.Context().Done():
			case <-release:
			}
			return true
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := w.client.Propose(ctx, w.place, wanted("2"), may)
			ended <- err
		}()
		<-asked
		waiting, leave := context.WithCancel(t.Context())
		leave()
		assert.ErrorIs(t, errOf(w.client.Propose(waiting, w.place, wanted("2"), may)), context.Canceled)
		cancel()
		assert.Error(t, <-ended, "%s: it was proposed", part)
		close(release)
	}
}

// What a provider answers gets into the log: neither what nobody can follow, nor the token.
func TestWhatAProviderAnswersIsBounded(t *testing.T) {
	for name, link := range map[string]string{
		"the token": "https://git.example/" + forgetest.Token, "a long one": "https://git.example/" + strings.Repeat("x", 2<<20), "no address": "javascript:alert(1)",
	} {
		w := newWorld(t, "gitea")
		w.forge.Before(func(to http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/pulls") {
				return false
			}
			to.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprintf(to, `{"number": 1, "html_url": %q, "state": "open"}`, link)
			return true
		})
		o := w.propose("2")
		if said := o.Detail + o.URL; strings.Contains(said, forgetest.Token) || len(said) > 1000 || strings.Contains(said, "javascript") {
			t.Errorf("of %s it says %.200s", name, said)
		}
	}
}

// A server that answers without end is not read without end.
func TestAnswersOverGitAreBounded(t *testing.T) {
	w := newWorld(t, "gitea")
	w.forge.Before(func(to http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/info/refs") {
			return false
		}
		to.WriteHeader(http.StatusInternalServerError)
		for chunk := make([]byte, 1<<20); ; {
			if _, err := to.Write(chunk); err != nil {
				return true
			}
		}
	})
	w.refused("2", "")
}

// proposeAtOnce proposes from so many branches, and returns how each proposal ends.
func (w *world) proposeAtOnce(many int) <-chan error {
	ended := make(chan error, many)
	for i := range many {
		place := w.place
		place.Branch = fmt.Sprint("b", i)
		go func() {
			_, err := w.client.Propose(w.Context(), place, wanted("2"), may)
			ended <- err
		}()
	}
	return ended
}

// However many wait for a server that does not answer, another one is asked at once.
func TestAServerThatDoesNotAnswerKeepsNobodyFromAnother(t *testing.T) {
	w, other := newWorld(t, "gitea"), newWorld(t, "gitea")
	const many, atOnce = 20, 4
	release, asked := make(chan struct{}), make(chan struct{}, 10*many)
	w.forge.Before(func(http.ResponseWriter, *http.Request) bool {
		asked <- struct{}{}
		<-release
		return false
	})
	ended := w.proposeAtOnce(many)
	for range atOnce {
		<-asked
	}
	require.NoError(t, must.Fail(w.client.Propose(waittest.Context(t), other.place, wanted("2"), may))) // and those who wait have not ended by themselves, after mostTime
	assert.Empty(t, asked, "more than %d are at work with one server", atOnce)
	w.forge.Before(nil)
	close(release)
	for range many {
		assert.NoError(t, <-ended)
	}
	assert.Equal(t, many, len(w.forge.Pulls()), "proposed")
}

// Whoever sends much and does not end keeps nobody else from reading much.
func TestALargeRepositoryThatDoesNotEndKeepsNobodyFromAnother(t *testing.T) {
	w, other := newWorld(t, "gitea"), newWorld(t, "gitea")
	files := map[string]string{}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 100 {
		text := make([]byte, 60<<10)
		for k := range text {
			text[k] = byte(random.Uint32())
		}
		files[fmt.Sprint("data/", i)] = string(text)
	}
	other.forge.Commit("main", files, "")
	other.forge.Configure("uploadpack.allowFilter", "false")
	release, sent := make(chan struct{}), make(chan struct{}, 10)
	w.forge.Before(func(to http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "git-upload-pack") {
			return false
		}
		_, _ = to.Write([]byte("00000008NAK\n"))
		_, _ = to.Write(make([]byte, 5<<20))
		sent <- struct{}{}
		<-release
		return true
	})
	const atOnce = 4
	ended := w.proposeAtOnce(atOnce)
	<-sent
	require.NoError(t, must.Fail(w.client.Propose(waittest.Context(t), other.place, wanted("2"), may))) // and those who wait have not ended by themselves, after mostTime
	close(release)
	for range atOnce {
		assert.Error(t, <-ended, "nothing is a pack")
	}
}

// errOf returns the error of a call that returns something besides.
func errOf[T any](_ T, err error) error { return err }

// A provider may give smaller pages than it is asked for.
func TestSmallPagesAreAllRead(t *testing.T) {
	each(t, func(w *world) {
		w.forge.PageSize = 7
		w.propose("2")
		for range 30 {
			w.forge.Fork(branch, "main", "mine", "open")
		}
		assert.Equal(w, 1, w.propose("2").Number)
		assert.Len(w, w.forge.Pulls(), 31)
		w.forge.Decline(1)
		for range 30 {
			w.forge.Fork(branch, "main", "mine", "closed")
		}
		w.again()
		w.gives("2", pullrequest.Declined, 1)
	})
}

// However many pull requests others have closed since, a decline is found.
func TestADeclineIsFoundAmongMany(t *testing.T) {
	w := newWorld(t, "gitea")
	w.propose("2")
	w.forge.Decline(1)
	for range 300 {
		w.forge.Fork("other", "main", "mine", "closed")
	}
	w.gives("2", pullrequest.Declined, 1)
	asked := func() (n int) {
		for _, r := range w.forge.Requests() {
			if strings.HasPrefix(r, "GET /api/") {
				n++
			}
		}
		return n
	}
	asked()
	w.now = w.now.AddDate(0, 1, 0) // what was closed before anybody wanted it is not read
	w.propose("3")
	assert.Equal(t, 2, asked())
	w.propose("3") // and nothing that is closed while something is open
	assert.Equal(t, 1, asked())
	w.forge.Decline(302)
	wanted := wanted("3")
	wanted.Since = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	o := must.Get(w.client.Propose(t.Context(), w.place, wanted, may))(t)
	assert.Equal(t, pullrequest.Declined, o.Status)
}

// What is kept of what servers sent is bounded, however many places there are and however much
// their files hold.
func TestWhatIsKeptIsBounded(t *testing.T) {
	const most = 36 << 20
	w := newWorld(t, "gitea")
	w.place.Provider = ""
	w.forge.Commit("main", map[string]string{file: "image: {tag: " + strings.Repeat("x", 900<<10) + "}\n"}, "")
	before := 0
	for i := range 6 { // each is another view
		w.place.Branch = "b" + strconv.Itoa(i)
		w.propose("2")
		if i == 0 {
			before = w.client.Kept()
		}
	}
	n := w.client.Kept()
	assert.True(t, before >= 900<<10 && n <= 4<<20, "%d bytes are kept, of which the first has %d", n, before)
	w.place.Provider = provider.Gitea
	w.forge.Before(func(to http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/api/") {
			return false
		}
		to.Header().Set("ETag", "1")
		_, _ = to.Write([]byte("[" + strings.Repeat(" ", 7<<20) + "]"))
		return true
	})
	for i := range 6 {
		w.place.Base = "base" + strconv.Itoa(i)
		w.forge.Commit(w.place.Base, map[string]string{file: "image: {tag: 1}\n"}, "main")
		_, _ = w.client.Propose(t.Context(), w.place, wanted("2"), may) // nothing can be opened
		n := w.client.Kept()
		assert.True(t, n >= 7<<20 && n <= most, "%d bytes are kept", n)
	}
}
