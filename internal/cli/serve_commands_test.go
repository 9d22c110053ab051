package cli_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/cli"
	"github.com/deployster-go/deployster/internal/must"
)

// How a command goes with a server.
type with int

const (
	through with = iota + 1 // it reads or records in the log of the server
	refused                 // it is at work on the log itself, and says that it is not possible through a server
	without                 // it has nothing to do with a log, and works as it does without a server
)

// withServer is every command, with arguments that bring it as far as its log, and how it goes
// with a server. A new command has to be put here, and in docs/server.md where it is refused.
var withServer = map[string]struct {
	how  with
	args string
}{
	"apply":   {through, "web.yaml --yes"},
	"plan":    {through, "web.yaml"},
	"destroy": {through, "web.yaml --yes"},
	"drift":   {through, "web.yaml"},
	"adopt":   {refused, "-f web.yaml site"},
	"lock":    {without, "web.yaml"},

	"module push": {without, "modules/none oci://127.0.0.1:1/none:1"},

	"validate": {without, "web.yaml"},
	"graph":    {without, "web.yaml"},
	"eval":     {without, "1"},
	"console":  {refused, "-e 1"},
	"fmt":      {without, "web.yaml"},
	"output":   {through, "--manifest web.yaml"},
	"explain":  {through, "run/web.yaml"},
	"gc":       {refused, ""},
	"serve":    {refused, ""},
	"schema":   {without, ""},
	"version":  {without, ""},
	"help":     {without, ""},

	"completion bash":       {without, ""},
	"completion fish":       {without, ""},
	"completion powershell": {without, ""},
	"completion zsh":        {without, ""},

	"build cancel":   {through, "base-1"},
	"build explain":  {through, "base-1"},
	"build forecast": {through, "base-1"},
	"build jobs":     {through, "base-1"},
	"build list":     {through, ""},
	"build logs":     {through, "base-1 1"},
	"build plan":     {without, "-f packages.yaml"},
	"build retry":    {through, "base-1"},
	"build run":      {refused, "--until-idle"},
	"build show":     {through, "base-1"},
	"build status":   {through, "base-1"},
	"build submit":   {through, "-f packages.yaml"},

	"env accept":    {through, "shop/prod 2 --content x"},
	"env adopt":     {through, "shop/prod"},
	"env clean":     {through, "shop/prod --yes"},
	"env confirm":   {through, "shop/prod"},
	"env cordon":    {through, "shop/prod web1"},
	"env create":    {through, "-f prod.yaml"},
	"env decline":   {through, "shop/prod 2"},
	"env delete":    {through, "shop/prod --yes"},
	"env deploy":    {through, "shop/prod --revision 1"},
	"env diff":      {through, "shop/prod 1 2"},
	"env drain":     {through, "shop/prod web1"},
	"env explain":   {through, "shop/prod"},
	"env history":   {through, "shop/prod"},
	"env list":      {through, ""},
	"env pause":     {through, "shop/prod"},
	"env promote":   {through, "shop/prod"},
	"env restart":   {through, "shop/prod"},
	"env resume":    {through, "shop/prod"},
	"env revisions": {through, "shop/prod"},
	"env rollback":  {through, "shop/prod"},
	"env run":       {refused, "--until-idle"},
	"env show":      {through, "shop/prod"},
	"env status":    {through, "shop/prod"},
	"env uncordon":  {through, "shop/prod web1"},
	"env update":    {through, "shop/prod --base 1 -f prod.yaml"},

	"host check":     {without, ""},
	"host list":      {without, ""},
	"host trust":     {without, ""},
	"image list":     {without, ""},
	"image load":     {without, "none.tar"},
	"image prune":    {without, "--yes"},
	"type list":      {without, ""},
	"type new":       {without, ""},
	"type run":       {without, "none"},
	"type terraform": {without, ""},
	"type test":      {without, ""},

	"state forget": {refused, "site"},
	"state show":   {refused, "site"},
	"state list":   {through, ""},
	"list":         {through, ""},

	"log copy":   {refused, "a.db b.db"},
	"log export": {through, ""},
	"log follow": {through, ""},
	"log latest": {through, "run/web.yaml"},
	"log list":   {through, ""},
	"log runs":   {through, ""},
	"log verify": {through, ""},

	"notification list":  {through, ""},
	"notification retry": {through, "team"},

	"pipeline apply":         {through, "-f gateway.yaml --yes"},
	"pipeline accept":        {through, "gateway 1 --content 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
	"pipeline decline":       {through, "gateway 1"},
	"pipeline approve":       {through, "gateway approve-prod 1"},
	"pipeline artifact":      {through, "gateway 1 web --failed --reason why"},
	"pipeline cancel":        {through, "gateway 1"},
	"pipeline confirm":       {through, "gateway beta"},
	"pipeline delete":        {through, "gateway --yes"},
	"pipeline diff":          {through, "gateway 1 2"},
	"pipeline trace":         {through, "1"},
	"pipeline explain":       {through, "gateway"},
	"pipeline history":       {through, "gateway"},
	"pipeline hold":          {through, "gateway prod --reason why"},
	"pipeline key add":       {through, "gateway ci --stage approve-prod --public public.pem"},
	"pipeline key create":    {through, "gateway ci --stage approve-prod --out new.pem"},
	"pipeline key list":      {through, "gateway"},
	"pipeline key revoke":    {through, "gateway ci --reason why"},
	"pipeline list":          {through, ""},
	"pipeline pause":         {through, "gateway"},
	"pipeline reject":        {through, "gateway approve-prod 1 --reason why"},
	"pipeline release":       {through, "gateway 1"},
	"pipeline release-hold":  {through, "gateway prod"},
	"pipeline repair":        {through, "gateway beta"},
	"pipeline rerun":         {through, "gateway prod 1"},
	"pipeline resume":        {through, "gateway"},
	"pipeline retry":         {through, "gateway prod"},
	"pipeline rollback":      {through, "gateway prod"},
	"pipeline run":           {refused, "--until-idle"},
	"pipeline show":          {through, "gateway 1"},
	"pipeline sign":          {through, "gateway approve-prod 1 --key key.pem --to https://deploy.example"},
	"pipeline skip":          {through, "gateway 1 --reason why"},
	"pipeline status":        {through, "gateway"},
	"pipeline stop-the-line": {through, "gateway --reason why"},

	"token create": {through, "ci --role viewer"},
	"token list":   {through, ""},
	"token revoke": {through, "ci"},
}

// workspace is one with a file of each kind that commands are given.
func workspace(t *testing.T) string {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	publicDER := must.Get(x509.MarshalPKIXPublicKey(public))(t)
	privateDER := must.Get(x509.MarshalPKCS8PrivateKey(private))(t)
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"web.yaml": "resources:\n  page: {type: deployster/file, config: {path: /tmp/page, content: hello}}\n",
		"gateway.yaml": `pipeline: gateway
stages:
- name: beta
  deploy:
    host_groups:
    - {name: beta, hosts: "attribute:stack == prod"}
    steps:
    - {event: host-deployed, manifest: web.yaml}
`,
		"prod.yaml": `name: shop/prod
task: {manifest: web.yaml}
instance_group: {query: "attribute:stack == prod"}
deployment: {min_healthy_percent: 0}
`,
		"packages.yaml": `group: base
job: {image: "builder:1", args: [make]}
packages:
  zlib: {version: "1.2"}
`,
		"inventory.yaml": "hosts: [{name: web1, engine: oci, attributes: {stack: [prod]}}]\n",
		"public.pem":     string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER})),
		"key.pem":        string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: privateDER})),
	})
	return dir
}

// Every command either goes through a server, or says that it does not, or has no log to do with.
// Which does what, nobody finds out by a command that used the wrong log.
func TestEveryCommandGoesThroughAServerOrSaysThatItDoesNot(t *testing.T) {
	t.Parallel()
	if known, listed := cli.Commands(), slices.Sorted(maps.Keys(withServer)); !slices.Equal(known, listed) {
		t.Fatalf("the commands are\n%s\nand said is how these go with a server:\n%s", strings.Join(known, "\n"), strings.Join(listed, "\n"))
	}
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"status": 403, "detail": "this server says no"}`))
	}))
	defer server.Close()
	ask := func(t *testing.T, name, args, at string) (code int, said string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, binary, append(strings.Fields(name), strings.Fields(args)...)...)
		cmd.Dir, cmd.Env = workspace(t), append(os.Environ(), "DEPLOYSTER_SERVER="+at)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
			t.Fatalf("%v, %v\n%s", err, ctx.Err(), &out)
		}
		assert.Error(t, must.Fail(os.Stat(filepath.Join(cmd.Dir, ".deployster", "deployments.db"))), "it has made a log here")
		return cmd.ProcessState.ExitCode(), out.String()
	}
	for _, name := range slices.Sorted(maps.Keys(withServer)) {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			c := withServer[name]
			asked.Store(0)
			code, said := ask(t, name, c.args, server.URL)
			switch asked := asked.Load(); c.how {
			case through:
				if asked == 0 || code == 0 || !strings.Contains(said, "this server says no") {
					t.Errorf("the server was asked %d times, exit %d\n%s", asked, code, said)
				}
			case refused:
				if asked > 0 || code != 3 || !strings.Contains(said, "not through server "+server.URL) {
					t.Errorf("the server was asked %d times, exit %d\n%s", asked, code, said)
				}
			case without:
				assert.True(t, asked <= 0, "the server was asked %d times, exit %d\n%s", asked, code, said)
				before, alone := ask(t, name, c.args, "")
				assert.Equal(t, code, before, "exit %d\n%s\nand without a server %d\n%s", code, said, before, alone)
			}
		})
	}
}

func TestWhatIsRefusedThroughAServerIsDocumented(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../docs/server.md"))(t)
	_, after, _ := strings.Cut(string(text), "\n### What is not done through a server\n")
	section, _, _ := strings.Cut(after, "\n#")
	for name, c := range withServer {
		if is := strings.Contains(section, "`"+name+"`"); is != (c.how != through) && !strings.HasPrefix(name, "completion ") {
			t.Errorf("of %q the section says something is %t", name, is)
		}
	}
}
