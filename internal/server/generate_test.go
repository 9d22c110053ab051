package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// document is as much of the OpenAPI document as requests follow from.
type document struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`

	all []operation
}

type operation struct {
	ID         string `json:"operationId"`
	Role       string `json:"x-role"`
	Parameters []struct {
		Name     string `json:"name"`
		In       string `json:"in"`
		Required bool   `json:"required"`
		Schema   schema `json:"schema"`
	} `json:"parameters"`
	Body struct {
		Content map[string]struct {
			Schema schema `json:"schema"`
		} `json:"content"`
	} `json:"requestBody"`
	Responses map[string]any `json:"responses"`

	method, path string
}

type schema struct {
	Ref        string            `json:"$ref"`
	Type       any               `json:"type"` // one, or several
	Format     string            `json:"format"`
	Pattern    string            `json:"pattern"`
	Enum       []any             `json:"enum"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
	More       any               `json:"additionalProperties"`
}

func readDocument(t testing.TB, text []byte) *document {
	t.Helper()
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			op := d.Paths[path][method]
			op.method, op.path = strings.ToUpper(method), path
			d.all = append(d.all, op)
		}
	}
	if len(d.all) == 0 {
		t.Fatal("the document has no operations")
	}
	return &d
}

// The kinds of what is sent. What is drawn when nothing is left to draw from is valid.
const (
	valid = iota
	nearly
	hostile
)

// generator makes requests of what it draws from bytes, so that a fuzzer which changes these
// changes requests.
type generator struct {
	*document
	words []string // that mean something in the log
	data  []byte
}

// draw is a number below n.
func (g *generator) draw(n int) int {
	if len(g.data) == 0 || n <= 1 {
		return 0
	}
	drawn := int(g.data[0])
	g.data = g.data[1:]
	if n > 256 && len(g.data) > 0 {
		drawn = drawn<<8 | int(g.data[0])
		g.data = g.data[1:]
	}
	return drawn % n
}

// kind is mostly valid, so that what is not is reached.
func (g *generator) kind() int {
	return []int{valid, valid, valid, valid, valid, nearly, nearly, hostile}[g.draw(8)]
}

func pick[T any](g *generator, some []T) T { return some[g.draw(len(some))] }

// nasty are texts that somebody may take for something else.
var nasty = []string{
	"", " ", "\x00", "..", "../../../etc/passwd", "/etc/passwd", "%2e%2e%2f", "<script>alert(1)</script>", "' OR 1=1 --", "a\nb", "a\r\nSet-Cookie: x=y", "\u202egpj.exe", "\xff\xfe",
	"-1", "0", "9223372036854775808", "1e999", "NaN", "null", "true", "[]", "{}", "gateway/", "/", "//", "*", "gateway\x7f", "ПРИВЕТ", "😀", strings.Repeat("a", 600), strings.Repeat("é", 70_000),
	strings.Repeat("[", 20_000), "2026-13-45T99:99:99Z", "0000-00-00T00:00:00Z", "99999-01-01T00:00:00Z", `"1"`, "W/\"1\"", "text/event-stream;q=", "bytes=0-",
}

// text is the text of a parameter of a schema.
func (g *generator) text(s schema, kind int) string {
	s = g.resolve(s)
	switch {
	case kind == hostile:
		return pick(g, nasty)
	case kind == nearly:
		return pick(g, append(slices.Clone(g.words), "0", "-0", "1.5", "1,2", " 1", "TRUE", "yes", "2026-01-01", strings.Repeat("f", 63), strings.Repeat("F", 64)))
	case len(s.Enum) > 0:
		if text, is := pick(g, s.Enum).(string); is {
			return text
		}
		return ""
	case s.Pattern != "":
		return strings.Repeat(pick(g, []string{"0", "a", "f"}), 64) // of the digests, the only ones that have one
	case g.typeOf(s) == "integer":
		return pick(g, []string{"0", "1", "2", "7", "100", "2147483647"})
	case g.typeOf(s) == "boolean":
		return pick(g, []string{"true", "false"})
	case s.Format == "date-time":
		return pick(g, []string{"2026-11-23T02:00:00Z", "1970-01-01T00:00:00.5Z", "2200-01-01T00:00:00+14:00"})
	}
	return pick(g, g.words)
}

func (g *generator) resolve(s schema) schema {
	if name, is := strings.CutPrefix(s.Ref, "#/components/schemas/"); is {
		return g.Components.Schemas[name]
	}
	return s
}

func (g *generator) typeOf(s schema) string {
	switch of := s.Type.(type) {
	case string:
		return of
	case []any:
		for _, one := range of {
			if text, is := one.(string); is && text != "null" {
				return text
			}
		}
	}
	return ""
}

// value is a value of a body.
func (g *generator) value(s schema, depth int) any {
	const deepest = 6
	s = g.resolve(s)
	kind := g.kind()
	if kind == hostile || depth > deepest {
		return pick(g, []any{nil, "", true, -1, 1e300, []any{}, map[string]any{}, []any{[]any{nil}}, pick(g, nasty)})
	}
	switch g.typeOf(s) {
	case "object":
		made := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if slices.Contains(s.Required, name) || g.draw(2) == 0 {
				made[name] = g.value(s.Properties[name], depth+1)
			}
		}
		if more, is := s.More.(map[string]any); is || kind == nearly {
			text, _ := json.Marshal(more)
			var of schema
			_ = json.Unmarshal(text, &of)
			made[pick(g, append(slices.Clone(g.words), nasty...))] = g.value(of, depth+1)
		}
		return made
	case "array":
		var made []any
		for range g.draw(4) {
			if s.Items != nil {
				made = append(made, g.value(*s.Items, depth+1))
			}
		}
		return made
	case "integer":
		return pick(g, []int{0, 1, 2, 3, -1, 1 << 40})
	case "number":
		return pick(g, []float64{0, 1.5, -1})
	case "boolean":
		return g.draw(2) == 0
	case "":
		return pick(g, []any{nil, "x", 1})
	}
	return g.text(s, kind)
}

// body is a body for an operation, and what it is called.
func (g *generator) body(op operation) (kind string, body []byte) {
	if len(op.Body.Content) == 0 {
		if g.kind() != hostile {
			return "", nil
		}
		return "application/json", []byte(pick(g, nasty))
	}
	kind = slices.Sorted(maps.Keys(op.Body.Content))[0]
	body = []byte(pick(g, nasty))
	if strings.Contains(kind, "json") {
		body, _ = json.Marshal(g.value(op.Body.Content[kind].Schema, 0))
	}
	switch g.kind() {
	case nearly:
		body = pick(g, [][]byte{body[:len(body)/2], append(body, ' ', '{', '}'), append(body, body...), bytes.ToUpper(body), nil, bytes.Replace(body, []byte(`"`), []byte("'"), 1)})
	case hostile:
		kind = pick(g, []string{"", "text/plain", "application/xml", "application/json; charset=utf-16", "multipart/form-data", "application/cbor"})
		body = []byte(pick(g, nasty))
	}
	return kind, body
}

// request is a request for one of the operations, in the role of somebody; ok is false where no
// client could send it.
func (g *generator) request(ctx context.Context) (r *http.Request, op operation, role string, ok bool) {
	op = pick(g, g.all)
	path, query, header := op.path, url.Values{}, http.Header{}
	for _, p := range op.Parameters {
		if !p.Required && g.draw(3) != 0 {
			continue
		}
		text := g.text(p.Schema, g.kind())
		switch p.In {
		case "path":
			if g.kind() != hostile {
				text = url.PathEscape(text)
			}
			path = strings.Replace(path, "{"+p.Name+"}", text, 1)
		case "query":
			if g.kind() != hostile || !p.Required {
				query.Add(p.Name, text)
			}
			if g.kind() == hostile {
				query.Add(p.Name, pick(g, nasty))
			}
		case "header":
			header.Set(p.Name, strings.Map(func(r rune) rune {
				if r < ' ' || r == 0x7f || r == utf8.RuneError {
					return -1
				}
				return r
			}, text))
		}
	}
	if g.kind() == hostile {
		query.Add(pick(g, nasty), pick(g, nasty))
	}
	role = pick(g, []string{"admin", "operator", "approver", "viewer", "nobody", ""})
	if role != "" {
		header.Set("Authorization", "Bearer "+role)
	}
	kind, body := g.body(op)
	if kind != "" {
		header.Set("Content-Type", kind)
	}
	method := op.method
	if g.kind() == hostile {
		method = pick(g, []string{"GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE"})
	}
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return nil, op, role, false
	}
	u.RawQuery = query.Encode()
	r = &http.Request{
		Method: method, URL: u, RequestURI: u.RequestURI(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "deploy.example", Header: header,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), RemoteAddr: "192.0.2.1:1234",
	}
	return r.WithContext(ctx), op, role, true
}
