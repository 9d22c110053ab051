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
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

var update = flag.Bool("update", false, "write what commands really print into the pages")

// page is a file of the documentation.
type page struct {
	path  string // relative to the repository
	lines []string
}

// block is a fenced piece of code.
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

// TestEveryCommandIsTested finds commands in blocks that no test runs.
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
