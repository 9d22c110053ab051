package pages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/terminal"
)

//go:embed templates/*.html
var templates embed.FS

//go:embed assets/*
var assets embed.FS

// asset is a file that pages load. Its path has a hash of it, so browsers keep it.
type asset struct {
	path string
	kind string
	text []byte
}

// readAssets reads the assets, by the names of their files and by their paths.
func readAssets() (map[string]asset, error) {
	all := map[string]asset{}
	files, err := fs.Glob(assets, "assets/*")
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		text, err := assets.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading what pages load: %w", err)
		}
		hash := sha256.Sum256(text)
		base, ext := path.Base(name), path.Ext(name)
		a := asset{path: strings.TrimSuffix(base, ext) + "-" + hex.EncodeToString(hash[:6]) + ext, text: text}
		a.kind = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}[ext]
		all[base], all[a.path] = a, a
	}
	return all, nil
}

func (p *Pages) serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := p.assets[r.PathValue("file")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	if a.path == r.PathValue("file") {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.text))
}

// parse reads the templates: each with the frame that all pages have.
func (p *Pages) parse() (map[string]*template.Template, error) {
	frame, err := template.New("frame.html").Funcs(p.functions()).ParseFS(templates, "templates/frame.html")
	if err != nil {
		return nil, fmt.Errorf("the frame of pages: %w", err)
	}
	files, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		return nil, err
	}
	looks := map[string]*template.Template{}
	for _, name := range files {
		look, err := frame.Clone()
		if err == nil {
			look, err = look.ParseFS(templates, name)
		}
		if err != nil {
			return nil, fmt.Errorf("the page %s: %w", name, err)
		}
		looks[strings.TrimSuffix(path.Base(name), ".html")] = look
	}
	return looks, nil
}

// functions are what templates may call.
func (p *Pages) functions() template.FuncMap {
	return template.FuncMap{
		"asset":    func(name string) string { return "/assets/" + p.assets[name].path },
		"clean":    func(v any) string { return terminal.InLine(fmt.Sprint(v)) },
		"lines":    func(text string) string { return strings.Join(terminal.Lines(text), "\n") },
		"count":    phrase.Count,
		"cut":      func(n int, text string) string { return phrase.Cut(text, n) },
		"clock":    clock,
		"iso":      func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
		"took":     phrase.Took,
		"distance": func(t time.Time) string { return distance(p.Now(), t) },
		"path":     pathOf,
		"asof":     asOf,
		"diffpath": func(of, after string) string {
			return of + "/diff?" + url.Values{"after": {after}}.Encode()
		},
		"tracepath": func(revision, pipeline string) string {
			return "/trace?" + url.Values{"revision": {revision}, "pipeline": {pipeline}}.Encode()
		},
		"ms":    func(ms float64) string { return phrase.Took(time.Duration(ms * float64(time.Millisecond))) },
		"word":  word,
		"short": short,
		"code":  codeOf,
		"float": func(n int64) float64 { return float64(n) },
		"deref": func(f *float64) float64 { return *f },
	}
}

// word is what style sheets call a state: FailureCleanup is failure-cleanup.
func word(state any) string {
	var b strings.Builder
	for i, r := range fmt.Sprint(state) {
		switch {
		case unicode.IsUpper(r) && i > 0:
			b.WriteByte('-')
			fallthrough
		case unicode.IsUpper(r):
			r = unicode.ToLower(r)
		case !unicode.IsLower(r):
			r = '-'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// clock is a time as pages show it, in UTC.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// distance is how long ago something was, or in how long it will be, in the largest unit.
func distance(now, t time.Time) string {
	text := "%d%s ago"
	d := now.Sub(t)
	if d < 0 {
		text, d = "in %d%s", -d
	}
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d >= unit.of {
			return fmt.Sprintf(text, int(d/unit.of), unit.name)
		}
	}
	return fmt.Sprintf(text, int(d/time.Second), "s")
}

// short is an id or a hash of which the beginning is enough where it is one of few.
func short(id string) string {
	const enough, hash = 12, 40
	if len(id) >= hash {
		return id[:enough]
	}
	return id
}

// pathOf is the path of a page, of which each part is a name.
func pathOf(parts ...any) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(fmt.Sprint(part)))
	}
	return b.String()
}

// asOf has a path lead to the same moment; 0 is now.
func asOf(at int64, where string) string {
	if at == 0 {
		return where
	}
	mark := "?"
	if strings.Contains(where, "?") {
		mark = "&"
	}
	return fmt.Sprintf("%s%sat=%d", where, mark, at)
}

// following is the targets whose events change a page: those that are named, and all below.
func following(targets ...string) string { return strings.Join(targets, "\n") }
