package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// pkg is a package with tests.
type pkg struct {
	dir        string // below the module, such as "internal/cli"
	goroutines bool   // the package or its tests start goroutines, so the race detector can find something
	outside    bool   // the package or its tests use processes, engines, servers or databases
}

// pure packages need nothing but a processor. The test of the architecture only asks go list.
func (p pkg) pure() bool { return !p.goroutines && !p.outside || p.dir == "internal/architecture" }

// observers test the program as another process, into which the race detector does not see.
func (p pkg) observer() bool {
	return slices.Contains([]string{"cmd/deployster", "docs", "examples", "examples/cluster", "scripts", "internal/cli", "internal/killloop", "internal/authoring", "engine/oci"}, p.dir)
}

// outside matches imports of what is outside the process of a test.
var outside = regexp.MustCompile(`^(os/exec|net/http|net/http/httptest|database/sql)$|^` + regexp.QuoteMeta(module) +
	`(engine/(docker|oci|kubernetes|enginetest)|deploylog/(sqlite|postgres)|runner/invoke|resources/internal/dockertest)(/|$)`)

// list returns the packages with tests that match patterns, or all of the module.
func list(ctx context.Context, patterns []string) ([]pkg, error) {
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	const format = `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}|{{.Dir}}|{{join .GoFiles " "}} {{join .TestGoFiles " "}} {{join .XTestGoFiles " "}}{{end}}`
	text, err := output(ctx, "go", append([]string{"list", "-f", format}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var all []pkg
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 3 {
			continue
		}
		p := pkg{dir: local(fields[0])}
		for _, name := range strings.Fields(fields[2]) {
			if err := p.read(filepath.Join(fields[1], name)); err != nil {
				return nil, err
			}
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no package with tests matches %s", strings.Join(patterns, " "))
	}
	return all, nil
}

// read adds what a file of the package uses.
func (p *pkg) read(path string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return fmt.Errorf("find out what %s uses: %w", p.dir, err)
	}
	for _, i := range file.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err == nil && outside.MatchString(name) {
			p.outside = true
		}
		if strings.HasPrefix(name, "net/http") { // a server calls handlers in goroutines
			p.goroutines = true
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			p.goroutines = true
		case *ast.SelectorExpr: // sync.WaitGroup and errgroup.Group, time and context
			p.goroutines = p.goroutines || n.Sel.Name == "Go" || n.Sel.Name == "AfterFunc"
		}
		return true
	})
	return nil
}
