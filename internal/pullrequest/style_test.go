package pullrequest_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/pullrequest"
)

const ann, ci = "Ann Lee <ann@example.com>", "Shop CI <ci@example.com>"

func TestCommitsAndPullRequestsAreWrittenAsTheDefinitionSays(t *testing.T) {
	w := newWorld(t, "gitea")
	w.place.Owner = "pipeline shop of log 1"
	const mark = "Deployster-Promotion: promotion-2 (pipeline shop of log 1)\n"
	for name, c := range map[string]struct {
		style          pullrequest.Style
		title, message string
	}{
		"the usual way": {pullrequest.Style{}, "Promote shop/prod to revision 2", "Promote shop/prod to revision 2\n\nPipeline shop, stage prod.\n\n" + mark},
		"a title":       {pullrequest.Style{Title: "deploy({{ stage }}): {{ revision }}"}, "deploy(prod): 2", "deploy(prod): 2\n\nPipeline shop, stage prod.\n\n" + mark},
		"a message": {
			pullrequest.Style{Message: "{{ pipeline|upper }}-{{ revision }}\n\nSets {{ value }} of {{ file }} for {{ environment }}.\n"},
			"Promote shop/prod to revision 2", "SHOP-2\n\nSets image.tag of shop/prod.yaml for shop/prod.\n\n" + mark,
		},
		"trailers": {
			pullrequest.Style{Author: ann, SignOff: true, Message: "bump\n\nRefs: OPS-1\nChange-Id: {{ revision }}"},
			"Promote shop/prod to revision 2", "bump\n\nRefs: OPS-1\nChange-Id: 2\nSigned-off-by: " + ann + "\n" + mark,
		},
		"trailers of its own": {
			pullrequest.Style{Author: ann, Committer: ci, SignOff: true, Message: "bump\n\nRefs: OPS-1", Trailers: []string{"Change-Id: I{{ revision }}", "Ticket: {{ revision if revision == '1' else '' }}"}},
			"Promote shop/prod to revision 2", "bump\n\nRefs: OPS-1\nChange-Id: I2\nSigned-off-by: " + ann + "\n" + mark,
		},
		"one line": {pullrequest.Style{Author: ann, SignOff: true, Message: "bump: it"}, "Promote shop/prod to revision 2", "bump: it\n\nSigned-off-by: " + ann + "\n" + mark},
	} {
		w.place.Style = c.style
		w.propose("2")
		pulls := w.forge.Pulls()
		assert.Equal(t, c.title, pulls[len(pulls)-1].Title, name)
		assert.Equal(t, c.message, w.forge.Git("log", "-1", "--format=%B", branch)[:len(c.message)], name)
		if c.style.Author != "" {
			assert.Equal(t, ann+" "+cmp.Or(c.style.Committer, ann), strings.TrimSpace(w.forge.Git("log", "-1", "--format=%an <%ae> %cn <%ce>", branch)), name)
			assert.Contains(t, w.forge.Git("log", "-1", "--format=%(trailers:key=Signed-off-by)", branch), "Signed-off-by: "+ann, name)
		}
		trailers := w.forge.Git("log", "-1", "--format=%(trailers:only,unfold)", branch)
		assert.Contains(t, trailers, mark, name)
		for _, template := range c.style.Trailers {
			key, value, _ := strings.Cut(template, ": ")
			assert.Equal(t, !strings.Contains(value, "if"), strings.Contains(trailers, key+": I2\n"), name)
		}
		w.propose("2") // it is known again
		assert.Len(t, w.forge.Pulls(), len(pulls), name)
		w.withdraws()
	}
	for template, why := range map[string]string{
		"{{ revision[9] }}":                    "commit message: ",
		"x\n\nRefs: {{ revision[9] }}":         "commit message: ",
		"x\n\nDeployster-Promotion: y":         `the line "Deployster-Promotion: y", by which Deployster knows its commits`,
		"{% if revision == '1' %}x{% endif %}": "the commit message is empty",
	} {
		w.place.Style = pullrequest.Style{Message: template}
		w.refused("2", why)
	}
	assert.Empty(t, w.forge.Head(branch), "something was pushed")
}

// Git itself checks the signatures, of keys as ssh-keygen and gpg write them.
func TestCommitsAreSignedWithAKey(t *testing.T) {
	w := newWorld(t, "gitea")
	w.place.Provider, w.place.Style.Author = "", ann
	home, err := os.MkdirTemp("", "gpg") // the path of a socket must be short
	require.NoError(t, err)
	t.Setenv("GNUPGHOME", home)
	run := func(name string, args ...string) string {
		out, err := exec.Command(name, args...).Output()
		require.NoError(t, err, "%s %q", name, args)
		return string(out)
	}
	t.Cleanup(func() {
		run("gpgconf", "--kill", "all")
		assert.NoError(t, os.RemoveAll(home))
	})
	keep := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(w.workspace, name), []byte(text), 0o600))
	}
	keep("passphrase", "open sesame\n")
	keep("wrong", "open barley")

	allowed := filepath.Join(w.workspace, "allowed")
	makers := map[string]func(name, passphrase string){}
	for _, kind := range []string{"ed25519", "rsa", "ecdsa"} {
		makers[kind] = func(name, passphrase string) {
			run("ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "ann", "-f", filepath.Join(w.workspace, name))
			public := must.Get(os.ReadFile(filepath.Join(w.workspace, name+".pub")))(t)
			require.NoError(t, os.WriteFile(allowed, append([]byte("ann@example.com "), public...), 0o600))
		}
	}
	for name, kind := range map[string]string{"gpg-ed25519": "ed25519", "gpg-rsa": "rsa2048"} {
		makers[name] = func(name, passphrase string) {
			user := name + passphrase + " " + ann
			run("gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", passphrase, "--quick-gen-key", user, kind, "sign")
			keep(name, run("gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", passphrase, "--armor", "--export-secret-keys", name+passphrase))
		}
	}
	revision := "1"
	for kind, makes := range makers {
		passphrases := []string{""}
		if strings.HasSuffix(kind, "ed25519") {
			passphrases = append(passphrases, "open sesame")
		}
		for _, passphrase := range passphrases {
			key := kind + "-" + strings.ReplaceAll(passphrase, " ", "-")
			makes(key, passphrase)
			revision += "1"
			w.now = time.Now() // a key signs nothing before it was made
			w.place.Style.SigningKey, w.place.Style.SigningPassphrase = key, ""
			if passphrase != "" {
				w.refused(revision, "commits cannot be signed with "+key+": the key has a passphrase: name the file of that")
				w.place.Style.SigningPassphrase = "wrong"
				w.refused(revision, "the passphrase does not open the key")
				w.place.Style.SigningPassphrase = "passphrase"
			}
			w.propose(revision)
			assert.Contains(t, w.forge.Git("-c", "gpg.ssh.allowedSignersFile="+allowed, "log", "-1", "--format=%G? %GS", branch), "G ", key)
			w.forge.Git("-c", "gpg.ssh.allowedSignersFile="+allowed, "verify-commit", branch)
		}
	}
	keep("other", "not a key")
	for key, why := range map[string]string{"other": "commits cannot be signed with other: it holds no private key", "none": "reading the key that signs commits"} {
		w.place.Style.SigningKey = key
		w.refused("2", why)
	}
}
