// Package docs is the documentation, and the test that keeps it true: every
// command that it shows is run, and must do and print what is shown.
//
// A block of code marked "console" is a session: lines that begin with "$ " are
// run by a shell, what follows them is their output. The comment before the
// block says where:
//
//	<!-- test: dir=examples/web -->        in a copy of that directory
//	<!-- test: dir=deployster -->          in a checkout
//	<!-- test: dir=empty -->               in an empty directory
//	<!-- test: dir=examples/web new -->    in another, fresh copy
//	<!-- test: unordered -->               lines of one output may come in any order
//	<!-- test: none, because … -->         not at all
//	<!-- test: as in README.md -->         on that page, which shows the same commands
//
// "$ cd DIRECTORY" goes elsewhere, as it does for a reader.
//
// Blocks of one page that name the same directory share one copy; a block
// without a directory goes on where the last one was. A command must end with 0
// unless the next one is "$ echo $?". In shown output a line "…" stands for any
// lines, and "…" within a line for any text. Ids, times, durations and the like
// are compared by form only.
//
// "go test ./docs -update" writes what the commands really print into the pages.
package docs

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

var update = flag.Bool("update", false, "write what commands really print into the pages")

type page struct {
	path  string // relative to the repository
	lines []string
}

type block struct {
	language string
	comment  string // "test: …" before it, "" without one
	first    int    // index of the first line within the fences
	lines    []string
}

func pages(t *testing.T) []page {
	paths := []string{"README.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md", "examples/*/README.md"} {
		found := must.Get(filepath.Glob(filepath.Join("..", pattern)))(t)
		for _, path := range found {
			paths = append(paths, strings.TrimPrefix(filepath.ToSlash(path), "../"))
		}
	}
	require.True(t, len(paths) >= 20, "found only the pages %v", paths)
	var all []page
	for _, path := range paths {
		text := must.Get(os.ReadFile(filepath.Join("..", path)))(t)
		all = append(all, page{path, strings.Split(string(text), "\n")})
	}
	return all
}

var testComment = regexp.MustCompile(`^<!-- (test: .*) -->$`)

// elsewhere begins the comment of a block whose commands another page runs.
const elsewhere = "test: as in "

// runs reports whether the commands of a block are run where they stand.
func (b block) runs() bool {
	return b.language == "console" && !strings.HasPrefix(b.comment, "test: none") && !strings.HasPrefix(b.comment, elsewhere)
}

func (p page) blocks(t *testing.T) []block {
	t.Helper()
	var blocks []block
	var open *block
	comment := ""
	for i, line := range p.lines {
		text := strings.TrimSpace(line)
		switch {
		case open != nil && text == "```":
			blocks = append(blocks, *open)
			open, comment = nil, ""
		case open != nil:
			open.lines = append(open.lines, line)
		case strings.HasPrefix(text, "```"):
			open = &block{language: strings.TrimPrefix(text, "```"), comment: comment, first: i + 1}
		case testComment.MatchString(text):
			comment = testComment.FindStringSubmatch(text)[1]
		case text != "":
			comment = ""
		}
	}
	if open != nil {
		t.Errorf("%s:%d: the block does not end", p.path, open.first)
	}
	return blocks
}

func TestEveryCommandIsTested(t *testing.T) {
	run := map[string][]string{} // by page
	for _, p := range pages(t) {
		for _, b := range p.blocks(t) {
			if !b.runs() {
				continue
			}
			for _, c := range commands(b) {
				run[p.path] = append(run[p.path], c.text)
			}
		}
	}
	for _, p := range pages(t) {
		for _, b := range p.blocks(t) {
			at := fmt.Sprintf("%s:%d", p.path, b.first)
			if other, ok := strings.CutPrefix(b.comment, elsewhere); ok {
				for _, c := range commands(b) {
					assert.Contains(t, run[other], c.text, "%s: %s does not run it", at, other)
				}
			}
			because, excused := strings.CutPrefix(b.comment, "test: none, because ")
			assert.False(t, excused && len(because) < 10, "%s: the reason is missing", at)
			shows := slices.ContainsFunc(b.lines, func(l string) bool {
				return strings.HasPrefix(l, "$ ") || strings.HasPrefix(l, "deployster ") || strings.HasPrefix(l, "# deployster ")
			})
			if shows && b.language != "console" && !excused {
				t.Errorf("%s: commands are shown in a block that is not a console, and no reason is given", at)
			}
		}
	}
}

// needsStack matches the comments of blocks in places with the web stack or packages to build, of
// which each process has one.
var needsStack = regexp.MustCompile(`dir=(deployster|examples/(web|toolchain))\b`)

func TestCommandsDoWhatIsShown(t *testing.T) {
	p := newProgram(t)
	for _, page := range pages(t) {
		if !slices.ContainsFunc(page.blocks(t), block.runs) {
			continue
		}
		t.Run(page.path, func(t *testing.T) {
			if !slices.ContainsFunc(page.blocks(t), func(b block) bool { return needsStack.MatchString(b.comment) }) {
				t.Parallel()
			}
			s := &session{program: p, places: map[string]string{}}
			page.lines = slices.Clone(page.lines)
			shift := 0 // by how many lines updates have moved what follows
			for _, b := range page.blocks(t) {
				if !b.runs() {
					continue
				}
				shown := s.run(t, fmt.Sprintf("%s:%d", page.path, b.first+1), b)
				if !*update || slices.Equal(shown, b.lines) {
					continue
				}
				from := b.first + shift
				page.lines = slices.Replace(page.lines, from, from+len(b.lines), shown...)
				shift += len(shown) - len(b.lines)
			}
			if shift != 0 || *update {
				text := strings.Join(page.lines, "\n")
				assert.NoError(t, os.WriteFile(filepath.Join("..", page.path), []byte(text), 0o644))
			}
		})
	}
}

// What an example made goes with destroy: whoever follows it is not to be sent to
// the engine behind the back of the log.
func TestExamplesAreRemovedByDestroy(t *testing.T) {
	byHand := regexp.MustCompile(`docker (rm|network rm|volume rm|container rm)\b`)
	for _, p := range pages(t) {
		if !strings.HasPrefix(p.path, "examples/") && p.path != "README.md" {
			continue
		}
		for i, line := range p.lines {
			assert.True(t, !byHand.MatchString(line), "%s:%d: it removes by hand what deployster destroy removes: %s", p.path, i+1, line)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, p := range pages(t) {
		code := false
		for i, line := range p.lines {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			if code {
				continue
			}
			for _, found := range link.FindAllStringSubmatch(line, -1) {
				to, anchor, _ := strings.Cut(found[1], "#")
				if strings.Contains(to, "://") {
					continue
				}
				target := filepath.Join("..", p.path)
				if to != "" {
					target = filepath.Join("..", filepath.Dir(p.path), to)
				}
				text, err := os.ReadFile(target)
				if err != nil {
					if info, e := os.Stat(target); e != nil || !info.IsDir() {
						t.Errorf("%s:%d: %s leads nowhere", p.path, i+1, found[1])
					}
					continue
				}
				if anchor != "" && !slices.Contains(anchors(text), anchor) {
					t.Errorf("%s:%d: %s has no heading #%s", p.path, i+1, target, anchor)
				}
			}
		}
	}
}

var notInAnchor = regexp.MustCompile(`[^a-z0-9 _-]`)

// anchors are the names that headings get.
func anchors(text []byte) []string {
	var names []string
	for line := range bytes.Lines(text) {
		heading := strings.TrimLeft(string(line), "#")
		if len(heading) == len(line) || !strings.HasPrefix(heading, " ") {
			continue
		}
		name := notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

func TestEveryPropertyOfATypeIsDocumented(t *testing.T) {
	schemas, err := filepath.Glob("../resources/*/schema.json")
	require.True(t, err == nil && len(schemas) >= 6, "found the schemas %v: %v", schemas, err)
	for _, path := range schemas {
		name := filepath.Base(filepath.Dir(path))
		text := must.Get(os.ReadFile(path))(t)
		page, err := os.ReadFile("types/" + name + ".md")
		if err != nil {
			t.Errorf("deployster/%s has no page: %v", name, err)
			continue
		}
		var schema any
		require.NoError(t, json.Unmarshal(text, &schema), "%s", path)
		for _, property := range properties(schema) {
			mentioned := regexp.MustCompile("`([a-z_]+\\.)?" + property + "`")
			assert.True(t, mentioned.Match(page), "docs/types/%s.md does not mention the property %s", name, property)
		}
	}
}

// properties lists the names of all properties that a schema knows.
func properties(schema any) []string {
	var names []string
	switch s := schema.(type) {
	case map[string]any:
		for key, value := range s {
			if all, ok := value.(map[string]any); ok && key == "properties" {
				for name := range all {
					names = append(names, name)
				}
			}
			names = append(names, properties(value)...)
		}
	case []any:
		for _, value := range s {
			names = append(names, properties(value)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var (
	helpCommand = regexp.MustCompile(`(?m)^  ([a-z]+) {2,}\S`)
	helpFlag    = regexp.MustCompile(`(?m)^ +(?:-[a-z], )?(--[a-z-]+)`)
)

func TestEveryFlagIsDocumented(t *testing.T) {
	program := must.Get(binary())(t)
	page := must.Get(os.ReadFile("cli.md"))(t)
	found := 0
	var look func(path ...string)
	look = func(path ...string) {
		out, err := exec.Command(program, append(path, "--help")...).Output()
		require.NoError(t, err, "deployster %s --help: %v", strings.Join(path, " "), err)
		for _, flag := range helpFlag.FindAllStringSubmatch(string(out), -1) {
			if found++; !strings.Contains(string(page), "`"+flag[1]) {
				t.Errorf("cli.md does not mention the flag %s of %q", flag[1], strings.Join(path, " "))
			}
		}
		_, list, ok := strings.Cut(string(out), "Available Commands:\n")
		if !ok {
			return
		}
		list, _, _ = strings.Cut(list, "\n\n")
		for _, command := range helpCommand.FindAllStringSubmatch(list, -1) {
			below := append(slices.Clone(path), command[1])
			if found++; !strings.Contains(string(page), strings.Join(below, " ")) {
				t.Errorf("cli.md does not mention %q", strings.Join(below, " "))
			}
			look(below...)
		}
	}
	look()
	assert.True(t, found >= 30, "only %d commands and flags were found in the help", found)
}

// program is the program under test, and what of the engines is this test's own.
type program struct {
	dir   string // holds the binary, and what stands in PATH before all else
	home  string
	cache string // of go build: a page may build something
	stack string // stands for "web", the name of the documented web stack
	port  string // stands for 8080

	before []string // the images of types that there were
}

// ownStack is a name that no other process has.
func ownStack() string { return fmt.Sprintf("docs%d", os.Getpid()) }

// binary builds the program, once. It is a build that nobody else has: the images of its types are
// those of this process.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "deployster-docs-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "deployster")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -buildid="+ownStack(), "-o", file, "../cmd/deployster")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return file, fmt.Errorf("building deployster: %w\n%s", err, out)
	}
	return file, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if file, _ := binary(); file != "" {
		_ = os.RemoveAll(filepath.Dir(file))
	}
	os.Exit(code)
}

// deployster runs the program on the engine of the place, unless the command names another one or
// is a type, which takes no options.
const deployster = `#!/bin/sh
[ "$1 $2" = "type run" ] || set -- --engine "$PAGE_ENGINE" "$@"
exec '%s' "$@"
`

func newProgram(t *testing.T) *program {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	p := &program{dir: t.TempDir(), home: t.TempDir(), stack: ownStack(), port: fmt.Sprint(l.Addr().(*net.TCPAddr).Port)}
	file := must.Get(binary())(t)
	// A fresh machine has no curl.
	for name, script := range map[string]string{"deployster": fmt.Sprintf(deployster, file), "curl": curl} {
		require.NoError(t, os.WriteFile(filepath.Join(p.dir, name), []byte(script), 0o700))
	}
	cache := must.Get(exec.Command("go", "env", "GOCACHE").Output())(t)
	p.cache = strings.TrimSpace(string(cache))
	p.before = typesThere()
	t.Cleanup(func() { p.clean(t) })
	return p
}

// curl does what the pages need of the command of that name.
const curl = `#!/usr/bin/env bash
set -euo pipefail
[ "$1" = -s ]
rest=${2#http://}
exec 3<>"/dev/tcp/${rest%%[:/]*}/$(sed -E 's/^[^:]*:([0-9]+).*/\1/' <<<"$rest")"
printf 'GET /%s HTTP/1.0\r\n\r\n' "${rest#*/}" >&3
sed '1,/^\r*$/d' <&3
`

func (p *program) image() string { return "deployster-example-" + p.stack }

// compiler is the image that packages are built in.
func (p *program) compiler() string { return p.image() + "-compiler" }

func docker(args ...string) string {
	out, _ := exec.Command("docker", args...).Output()
	return strings.TrimSpace(string(out))
}

// typesThere are the images of types that there are.
func typesThere() []string {
	return strings.Fields(docker("image", "ls", "--quiet", "--filter", "label=deployster.type"))
}

// clean removes what the commands made. What they did not make is not there.
func (p *program) clean(t *testing.T) {
	docker("rm", "--force", "--volumes", p.stack+"-front", p.stack+"-store")
	docker("network", "rm", p.stack+"-net")
	docker("volume", "rm", p.stack+"-data")
	docker("image", "rm", p.image())
	docker("image", "rm", p.compiler())
	// The images of the types that ship are known by the program they hold.
	for _, image := range typesThere() {
		if slices.Contains(p.before, image) {
			continue
		}
		dir := t.TempDir()
		id := docker("create", "--label", "deployster-docs="+p.stack, image)
		docker("cp", id+":/deployster", filepath.Join(dir, "deployster"))
		docker("rm", id)
		ours, err := os.ReadFile(filepath.Join(p.dir, "deployster"))
		assert.NoError(t, err)
		if theirs, err := os.ReadFile(filepath.Join(dir, "deployster")); err == nil && string(theirs) == string(ours) {
			docker("image", "rm", "--force", image)
		}
	}
}

// session is what the blocks of one page share.
type session struct {
	*program
	places map[string]string // documented directory → the copy
	dir    string            // where the last block was
	docker bool              // whether that place is for Docker, which has the images that it builds
	last   int               // exit code of the last command
}

// command is one line of a block and what is shown as its output.
type command struct {
	text  string
	lines []string
}

var hereDocument = regexp.MustCompile(`<<'?([A-Z]+)'?`)

func commands(b block) []command {
	var all []command
	until := "" // the end of a here-document
	for _, line := range b.lines {
		last := len(all) - 1
		switch text, prompt := strings.CutPrefix(line, "$ "); {
		case until != "":
			all[last].text += "\n" + line
			if line == until {
				until = ""
			}
		case prompt:
			all = append(all, command{text: text})
			if m := hereDocument.FindStringSubmatch(text); m != nil {
				until = m[1]
			}
		case last < 0:
		case strings.HasSuffix(all[last].text, "\\") && len(all[last].lines) == 0:
			all[last].text += "\n" + line
		default:
			all[last].lines = append(all[last].lines, line)
		}
	}
	return all
}

func (s *session) run(t *testing.T, at string, b block) []string {
	t.Helper()
	unordered := false
	if !s.place(t, at, b.comment, &unordered) {
		return b.lines
	}
	all := commands(b)
	var shown []string
	for i, c := range all {
		shown = append(shown, strings.Split("$ "+c.text, "\n")...)
		if c.text == "echo $?" {
			if got := []string{fmt.Sprint(s.last)}; !slices.Equal(c.lines, got) {
				assert.True(t, *update, "%s: the exit code is %d, %v is shown", at, s.last, c.lines)
				c.lines = got
			}
			shown = append(shown, c.lines...)
			continue
		}
		out := s.execute(c.text)
		if s.last != 0 && (i+1 == len(all) || all[i+1].text != "echo $?") {
			t.Errorf("%s: `%s` ended with %d:\n%s", at, c.text, s.last, out)
		}
		got := s.documented(out)
		want, real := s.normal(c.lines), s.normal(got)
		if unordered {
			slices.Sort(want)
			slices.Sort(real)
		}
		switch {
		case matches(want, real):
			got = c.lines
		case !*update:
			t.Errorf("%s: `%s` prints\n  %s\nand this is shown:\n  %s", at, c.text, strings.Join(real, "\n  "), strings.Join(want, "\n  "))
		}
		shown = append(shown, got...)
	}
	return shown
}

// place goes to where the comment of a block says.
func (s *session) place(t *testing.T, at, comment string, unordered *bool) bool {
	t.Helper()
	documented, fresh := "", false
	for _, word := range strings.Fields(strings.TrimPrefix(comment, "test: ")) {
		if comment == "" {
			break
		}
		switch dir, isDir := strings.CutPrefix(word, "dir="); {
		case isDir:
			documented = dir
		case word == "new":
			fresh = true
		case word == "unordered":
			*unordered = true
		default:
			t.Errorf("%s: %q is not known in a test comment", at, word)
			return false
		}
	}
	if documented == "" {
		assert.NotEmpty(t, s.dir, "%s: the first console of a page must say in which directory it is", at)
		return s.dir != ""
	}
	if s.places[documented] == "" || fresh {
		s.places[documented] = s.copy(t, documented)
	}
	s.dir, s.docker = s.places[documented], usesDocker(documented)
	return true
}

// usesDocker reports whether commands in a directory run on Docker, as Docker builds their images.
// All others run on the engine without a daemon, which is quicker.
func usesDocker(dir string) bool { return filepath.Base(dir) == "web" || dir == toolchain }

// checkout is the place that is a copy of the repository, of which a page needs
// no more than the examples.
const checkout = "deployster"

// toolchain is the place of packages that are built.
const toolchain = "examples/toolchain"

// copy makes a place.
func (s *session) copy(t *testing.T, documented string) string {
	dir := t.TempDir()
	to, from, web := dir, filepath.Join("..", documented), ""
	switch documented {
	case "empty":
		return dir
	case checkout:
		to, from, web = filepath.Join(dir, "examples"), "../examples", filepath.Join(dir, "examples/web")
	case "examples/web":
		web = dir
	case toolchain:
		require.NoError(t, os.WriteFile(filepath.Join(dir, "vars.zz-test.auto.yaml"), []byte("image: "+s.compiler()+"\n"), 0o600))
	}
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	if web != "" { // names and a port of this test's own
		own := fmt.Sprintf("stack: %s\nport: %s\nimage: %s\n", s.stack, s.port, s.image())
		require.NoError(t, os.WriteFile(filepath.Join(web, "vars.zz-test.auto.yaml"), []byte(own), 0o600))
	}
	return dir
}

// execute runs a command as a user would type it and returns what it prints.
func (s *session) execute(text string) string {
	if to, ok := strings.CutPrefix(text, "cd "); ok {
		s.dir, s.docker, s.last = filepath.Join(s.dir, to), usesDocker(to), 0
		if _, err := os.Stat(s.dir); err != nil {
			s.last = 1
			return err.Error()
		}
		return ""
	}
	switch {
	case text == "./build" && s.dir == s.places[toolchain]:
		text += " " + s.compiler()
	case text == "./build":
		text += " " + s.image()
	}
	for _, part := range []string{"front", "store", "net", "data"} {
		text = strings.ReplaceAll(text, "web-"+part, s.stack+"-"+part)
	}
	text = strings.ReplaceAll(text, "127.0.0.1:8080", "127.0.0.1:"+s.port)
	engine := "oci"
	if s.docker {
		engine = "docker"
	}
	c := exec.Command("bash", "-c", text)
	c.Dir = s.dir
	c.Env = append(os.Environ(), "PATH="+s.program.dir+":"+os.Getenv("PATH"), "HOME="+s.home,
		"XDG_CACHE_HOME="+filepath.Join(s.home, "cache"), "PAGE_ENGINE="+engine, "GOCACHE="+s.cache, "TERM=dumb", "TZ=UTC", "LC_ALL=C.UTF-8")
	out, _ := c.CombinedOutput() // the exit code tells
	s.last = c.ProcessState.ExitCode()
	return string(out)
}

// documented puts into output the names that the pages use.
func (s *session) documented(out string) []string {
	for shown, dir := range s.places {
		name := filepath.Base(shown)
		out = strings.ReplaceAll(out, dir, "/home/you/"+name)
	}
	out = strings.NewReplacer(s.compiler(), "deployster-example-compiler", s.image(), "deployster-example-web", s.stack, "web", s.port, "8080", s.home, "/home/you").Replace(out)
	out = strings.TrimRight(out, "\n")
	if out == "" {
		return nil
	}
	lines := slices.DeleteFunc(strings.Split(out, "\n"), ofSlowness.MatchString)
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// ofSlowness is what is said only where something takes long, as on a busy machine.
var ofSlowness = regexp.MustCompile(`^ +… (.* still busy after [^:]+: |[0-9]+ of [0-9]+ resources? done$)`)

// What differs from run to run, by form.
var volatile = []struct {
	form *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b`), "ULID"},
	{regexp.MustCompile(`^ +[0-9]+  (20[0-9]{2}-)`), "SEQ $1"}, // initializations end in any order
	{regexp.MustCompile(`^ +[0-9]+  ([·✔✘●!] )`), "SEQ $1"},
	{regexp.MustCompile(`\b(finished|running|failed|cancelled|skipped) +[0-9]+ `), "$1 SEQ "},
	{regexp.MustCompile(`\bevent [0-9]+\b`), "event SEQ"},
	{regexp.MustCompile(`\bby [a-z0-9._-]+(@[A-Za-z0-9._-]+)? since\b`), "by WHO since"},
	{regexp.MustCompile(`"seq":[0-9]+`), `"seq":SEQ`},
	{regexp.MustCompile(`\b[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?( ?UTC|Z)?`), "TIME"},
	{regexp.MustCompile(`TIME +[^ @]+@[^ ]+$`), "TIME NAME"},
	{regexp.MustCompile(`"(duration_ms|pid)":"?[0-9.]+"?`), `"$1":N`},
	{regexp.MustCompile(`\b[0-9]+(\.[0-9]+)?(ms|s|m[0-9]*s?)\b`), "DURATION"},
	{regexp.MustCompile(`(DURATION|–) +[^ ]+ +[0-9]+ +ULID`), "$1 NAME SEQ ULID"}, // of a history
	{regexp.MustCompile(`\b[0-9a-f]{12,64}\b`), "HASH"},
	{regexp.MustCompile(`\b(172|192\.168|10)(\.[0-9]+){2,3}\b`), "ADDRESS"},
	// Pages show what users of Docker see.
	{regexp.MustCompile(`(docker|(oci )?runc) [0-9]+(\.[0-9]+)+[^ ",]*`), "ENGINE"},
	{regexp.MustCompile(`\b(deployster"?[ :]+"?)[0-9]+\.[0-9]+\.[0-9]+[^ ",]*`), "${1}VERSION"},
	{regexp.MustCompile(`\bgo1\.[0-9.]+`), "GO"},
	{regexp.MustCompile(`\b(linux|darwin)/[a-z0-9]+`), "PLATFORM"},
	{regexp.MustCompile(`Visitor number [0-9]+`), "Visitor number N"},
	{regexp.MustCompile(`"(host|user)":"[^"]*"`), `"$1":"NAME"`},
	// Which engine, machine and start of it a run used.
	{regexp.MustCompile(`"engine":\{"kind":"[a-z]+","address":"[^"]*","id":"[^"]*",("local":true,)?`), `"engine":{`},
	{regexp.MustCompile(`"engine_address":"[^"]*"`), `"engine_address":"ADDRESS"`},
	{regexp.MustCompile(`"uid":"\d+"(,"machine":"[^"]*")?(,"boot":"[^"]*")?`), `"uid":"N","machine":"HASH","boot":"HASH"`},
	{regexp.MustCompile(`\b(apply|destroy) by [^ ]+`), "$1 by NAME"},
	{regexp.MustCompile(`(apply|destroy) +[^ ]+ +TIME`), "$1 NAME TIME"},
	{regexp.MustCompile(`\b(by|as) [^ @]+@[^ :,]+`), "$1 NAME"},
	{regexp.MustCompile(` +`), " "},
}

func (s *session) normal(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		for _, v := range volatile {
			line = v.form.ReplaceAllString(line, v.name)
		}
		out[i] = strings.TrimRight(line, " ")
	}
	return out
}

// matches compares lines, where "…" in want stands for anything.
func matches(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] == "…" {
		for i := range len(got) + 1 {
			if matches(want[1:], got[i:]) {
				return true
			}
		}
		return false
	}
	if len(got) == 0 {
		return false
	}
	parts := strings.Split(want[0], "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	line := regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
	return line.MatchString(got[0]) && matches(want[1:], got[1:])
}
