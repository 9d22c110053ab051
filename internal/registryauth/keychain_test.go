package registryauth_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/registryauth"
)

const secret = "hunter2-do-not-show"

// home is a directory of a user, with programs of credential helpers.
type home struct {
	t   *testing.T
	dir string
	env map[string]string
}

func newHome(t *testing.T) *home {
	h := &home{t, t.TempDir(), map[string]string{}}
	h.env["HOME"] = h.dir
	for name, script := range map[string]string{
		"knows":   `read host; echo "{\"ServerURL\":\"$host\",\"Username\":\"helped\",\"Secret\":\"` + secret + `\"}"`,
		"token":   `echo '{"Username":"<token>","Secret":"` + secret + `"}'`,
		"unknown": `echo "credentials not found in native keychain"; exit 1`,
		"locked":  `printf 'the key chain\033[2J is locked'; exit 1`,
		"leaky":   `echo '{"Username":"x","Secret":"` + secret + `"}'; exit 1`,
		"garbage": `echo "garbage ` + secret + `"`,
		"empty":   `echo '{}'`,
		"flood":   `yes ` + secret + ` | head -c 10000000`,
		"hangs":   `sleep 600`,
	} {
		h.write("bin/docker-credential-"+name, "#!/bin/sh\n"+script+"\n", 0o755)
	}
	t.Setenv("PATH", filepath.Join(h.dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	return h
}

func (h *home) write(name, text string, mode os.FileMode) {
	path := filepath.Join(h.dir, name)
	require.NoError(h.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(h.t, os.WriteFile(path, []byte(text), mode))
}

func (h *home) keychain() registryauth.Keychain {
	return registryauth.Keychain{Env: func(name string) string { return h.env[name] }, Patience: time.Minute}
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func TestCredentialsAreWhereTheDockerCommandHasThem(t *testing.T) {
	auth := `{"auth":"` + encoded("me:"+secret) + `"}`
	me, helped := authn.AuthConfig{Username: "me", Password: secret}, authn.AuthConfig{Username: "helped", Password: secret}
	for name, c := range map[string]struct {
		files              map[string]string
		env                map[string]string
		registry, resource string
		want               authn.AuthConfig
	}{
		"nothing anywhere":                       {},
		"in the file":                            {files: map[string]string{".docker/config.json": `{"auths":{"r.example":` + auth + `}}`}, want: me},
		"of another registry":                    {files: map[string]string{".docker/config.json": `{"auths":{"other.example":` + auth + `}}`}},
		"under an old address":                   {files: map[string]string{".docker/config.json": `{"auths":{"https://r.example/v1/":` + auth + `}}`}, want: me},
		"of Docker's own registry":               {files: map[string]string{".docker/config.json": `{"auths":{"https://index.docker.io/v1/":` + auth + `}}`}, registry: "docker.io", want: me},
		"of a repository":                        {files: map[string]string{".docker/config.json": `{"auths":{"r.example":{"username":"all","password":"x"},"r.example/mine":` + auth + `}}`}, want: me},
		"in two fields":                          {files: map[string]string{".docker/config.json": `{"auths":{"r.example":{"username":"me","password":"` + secret + `"}}}`}, want: me},
		"an identity token":                      {files: map[string]string{".docker/config.json": `{"auths":{"r.example":{"identitytoken":"` + secret + `"}}}`}, want: authn.AuthConfig{IdentityToken: secret}},
		"DOCKER_CONFIG":                          {files: map[string]string{"c/config.json": `{"auths":{"r.example":` + auth + `}}`}, env: map[string]string{"DOCKER_CONFIG": "c"}, want: me},
		"DOCKER_AUTH_CONFIG":                     {env: map[string]string{"DOCKER_AUTH_CONFIG": `{"auths":{"r.example":` + auth + `}}`}, want: me},
		"podman's file":                          {files: map[string]string{".config/containers/auth.json": `{"auths":{"r.example":` + auth + `}}`}, want: me},
		"podman's, of Docker's own registry":     {files: map[string]string{".config/containers/auth.json": `{"auths":{"docker.io":` + auth + `}}`}, registry: "docker.io", want: me},
		"the same for artifacts":                 {files: map[string]string{".config/containers/auth.json": `{"auths":{"docker.io/team":{"username":"x","password":"x"},"docker.io/team/mine":` + auth + `}}`}, registry: "index.docker.io/team", want: me},
		"podman's, of a namespace":               {files: map[string]string{".config/containers/auth.json": `{"auths":{"r.example/a":{"username":"x","password":"x"},"r.example/team":` + auth + `}}`}, registry: "r.example/team/x", want: me},
		"a helper of the registry":               {files: map[string]string{".docker/config.json": `{"credsStore":"garbage","credHelpers":{"r.example":"knows"}}`}, want: helped},
		"a helper of all":                        {files: map[string]string{".docker/config.json": `{"credsStore":"knows"}`}, want: helped},
		"a helper that has a token":              {files: map[string]string{".docker/config.json": `{"credsStore":"token"}`}, want: authn.AuthConfig{IdentityToken: secret}},
		"a helper that has none":                 {files: map[string]string{".docker/config.json": `{"credsStore":"unknown"}`}},
		"an empty file":                          {files: map[string]string{".docker/config.json": ``}},
		"an entry that `docker logout` has left": {files: map[string]string{".docker/config.json": `{"auths":{"r.example":{}}}`}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			for file, text := range c.files {
				h.write(file, text, 0o600)
			}
			for name, value := range c.env {
				if name == "DOCKER_CONFIG" {
					value = filepath.Join(h.dir, value)
				}
				h.env[name] = value
			}
			registry := c.registry
			if registry == "" {
				registry = "r.example"
			}
			host, _, _ := strings.Cut(registry, "/")
			got, err := h.keychain().Find(t.Context(), host, registry+"/mine")
			assert.True(t, err == nil && got == c.want, "it is %+v, %v; want %+v", got, err, c.want)
		})
	}
}

func TestWhatIsWrongWithCredentialsIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		says   []string // beside the file
	}{
		"no JSON":                      {"{\n \"auths\": {\"r.example\": " + secret + "}}", []string{"is no JSON, in line 2", "correct it"}},
		"of another shape":             {"{\n\"auths\": [\"" + secret + "\"]}", []string{"has in line 2", "correct it"}},
		"a number for a password":      {`{"auths":{"r.example":{"username":"me","password":4711}}}`, []string{"has in line 1 a value of JSON's type number"}},
		"no base64":                    {`{"auths":{"r.example":{"auth":"` + secret + `!"}}}`, []string{`under "r.example"`, "auth is not in base64", "docker login r.example"}},
		"no colon":                     {`{"auths":{"r.example":{"auth":"` + encoded(secret) + `"}}}`, []string{"auth is not USER:PASSWORD", "docker login r.example"}},
		"a helper that is not there":   {`{"credsStore":"missing"}`, []string{"docker-credential-missing is not in PATH", "install it"}},
		"a helper elsewhere":           {`{"credsStore":"../../bin/sh"}`, []string{`"../../bin/sh" cannot be the name of a credential helper`}},
		"a helper that fails":          {`{"credsStore":"locked"}`, []string{"docker-credential-locked failed (exit status 1): the key chain [2J is locked;"}},
		"a helper that fails and says": {`{"credsStore":"leaky"}`, []string{"docker-credential-leaky failed", "nothing that could be shown"}},
		"a helper that prints garbage": {`{"credsStore":"garbage"}`, []string{`printed something else than {"Username"`}},
		"a helper without a secret":    {`{"credsStore":"empty"}`, []string{`printed something else than {"Username"`}},
		"a helper that prints 10 MB":   {`{"credsStore":"flood"}`, []string{"printed more than 65536 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			h.write(".docker/config.json", c.config, 0o600)
			got, err := h.keychain().Find(t.Context(), "r.example", "r.example/mine")
			require.True(t, err != nil && got == (authn.AuthConfig{}), "it is %+v, %v", got, err)
			checkSays(t, err, append(c.says, filepath.Join(h.dir, ".docker/config.json"), "registry r.example")...)
		})
	}
}

func TestHelperThatHangsIsEnded(t *testing.T) {
	h := newHome(t)
	h.write(".docker/config.json", `{"credsStore":"hangs"}`, 0o600)
	k := h.keychain()
	k.Patience = 50 * time.Millisecond
	_, err := k.Find(t.Context(), "r.example", "r.example/mine")
	checkSays(t, err, "docker-credential-hangs did not end within 50ms", "try `echo r.example | docker-credential-hangs get`")
}

func TestConfigurationThatCannotBeReadIsAnError(t *testing.T) {
	h := newHome(t)
	file := filepath.Join(h.dir, ".docker/config.json")
	for name, arrange := range map[string]func() error{
		"a directory": func() error { return os.Mkdir(file, 0o700) },
		"a pipe":      func() error { return syscall.Mkfifo(file, 0o600) },
		"a loop":      func() error { return os.Symlink(file, file) },
		"10 MB":       func() error { return os.WriteFile(file, make([]byte, 10<<20), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(filepath.Dir(file)))
			require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
			require.NoError(t, arrange())
			_, err := h.keychain().Find(t.Context(), "r.example", "r.example/mine")
			checkSays(t, err, file, "DOCKER_CONFIG")
			_, err = registryauth.ConnectionOf(filepath.Dir(file))
			checkSays(t, err, file, "DOCKER_CONFIG")
		})
	}
}

func checkSays(t *testing.T, err error, texts ...string) {
	t.Helper()
	require.Error(t, err, "no error")
	for _, text := range texts {
		assert.Contains(t, err.Error(), text, "error %q does not say %q", err, text)
	}
	if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), encoded(secret)) || strings.ContainsAny(err.Error(), "\x1b\n") {
		t.Errorf("the error shows what it must not: %q", err)
	}
}

func FuzzConfiguration(f *testing.F) {
	f.Add([]byte(`{"auths":{"r.example":{"auth":"bWU6eA=="}},"credsStore":""}`))
	f.Add([]byte(`{"auths":{"https://r.example/v1/":{}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		env := map[string]string{"DOCKER_AUTH_CONFIG": string(text), "HOME": "/nowhere"}
		k := registryauth.Keychain{Env: func(name string) string { return env[name] }}
		_, err := k.Find(t.Context(), "r.example", "r.example/mine")
		assert.True(t, err == nil || !strings.ContainsAny(err.Error(), "\x1b\n"), "%q", err)
	})
}
