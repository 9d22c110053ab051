package pullrequest_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/pullrequest/forgetest"
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
		w.place.File = path
		w.refused("2", why)
	}
	assert.Empty(t, w.forge.Head(branch), "something was pushed")
	assert.Empty(t, w.forge.Pulls())
}

func TestAFileThatTheServerLeavesOutIsReadAllTheSame(t *testing.T) {
	w := newWorld(t, "gitlab")
	large := before + strings.Repeat("# a line that tells nobody anything\n", 1<<12)
	w.forge.Commit("main", map[string]string{file: large, "other.bin": strings.Repeat("x", 1<<20)}, "")
	w.propose("2")
	assert.True(t, strings.Replace(large, `"1"`, `"2"`, 1) == w.forge.Show(branch, file), "the branch has another file")
	assert.Equal(t, file, w.forge.Changed("main", branch))
	w.forge.Check()
}

func TestTheTagOfAnImageIsSet(t *testing.T) {
	w := newWorld(t, "bitbucket")
	w.forge.Commit("main", map[string]string{file: "spec:\n  containers:\n  - {name: web, image: 'localhost:5000/web:1'} # here\n"}, "")
	path, err := value.Parse("spec.containers[name=web].image")
	require.NoError(t, err)
	w.place.Value, w.place.Tag = path, true
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
	w.refused("2", "the repository has no branch trunk")
	w.place.Repository = w.forge.URL + "/acme/none.git"
	w.refused("2", "")
}

// bomb is a pack whose one object is small as it is sent, and large as it says it is.
func bomb(size int) []byte {
	var pack bytes.Buffer
	pack.WriteString("PACK")
	_ = binary.Write(&pack, binary.BigEndian, []uint32{2, 1})
	const blob = 3
	first, rest := byte(blob<<4|size&15), size>>4
	for rest > 0 {
		pack.WriteByte(first | 0x80)
		first, rest = byte(rest&0x7f), rest>>7
	}
	pack.WriteByte(first)
	z, _ := zlib.NewWriterLevel(&pack, zlib.BestSpeed)
	chunk := make([]byte, 1<<20)
	for written := 0; written < size; written += len(chunk) {
		_, _ = z.Write(chunk[:min(len(chunk), size-written)])
	}
	_ = z.Close()
	sum := sha1.Sum(pack.Bytes())
	return append(pack.Bytes(), sum[:]...)
}

func TestWhatAServerSendsIsBounded(t *testing.T) {
	w := newWorld(t, "github")
	large, small := bomb(80<<20), bomb(1<<20)
	for name, c := range map[string]struct {
		body []byte
		why  string
	}{
		"a bomb":      {large, "too large"},
		"half a pack": {small[:len(small)/2], "reading what the server sent"},
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

func TestAHookThatRefusesIsSaidSo(t *testing.T) {
	w := newWorld(t, "gitea")
	w.forge.Refuse("refs may not be made here")
	w.refused("2", "the server refused the push: command error on refs/heads/deployster/shop/prod: pre-receive hook declined")
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
	_, err := w.client.Propose(waittest.Context(t), other.place, wanted("2"), may)
	require.NoError(t, err) // and those who wait have not ended by themselves, after mostTime
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
	_, err := w.client.Propose(waittest.Context(t), other.place, wanted("2"), may)
	require.NoError(t, err) // and those who wait have not ended by themselves, after mostTime
	close(release)
	for range atOnce {
		assert.Error(t, <-ended, "nothing is a pack")
	}
}

// errOf returns the error of a call that returns something besides.
func errOf[T any](_ T, err error) error { return err }
