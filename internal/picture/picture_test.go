package picture_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/picture"
)

var web = picture.Graph{
	Title: "web.yaml",
	Nodes: []picture.Node{
		{ID: "net", Label: "net", Detail: "deployster/network"}, {ID: "data", Label: "data", Detail: "deployster/volume"},
		{ID: "db", Label: "db", Detail: "deployster/container"}, {ID: "api", Label: "api", Detail: "deployster/container"},
		{ID: "smoke", Label: "smoke", Detail: "deployster/http"},
	},
	Edges: []picture.Edge{{"db", "net"}, {"db", "data"}, {"api", "db"}, {"api", "net"}, {"smoke", "api"}},
}

func draw(t testing.TB, how func(io.Writer, picture.Graph) error, g picture.Graph) string {
	t.Helper()
	var b bytes.Buffer
	if err := how(&b, g); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	const want = `web.yaml
├─ net  (deployster/network)
│  ├─ db  (deployster/container)
│  │  └─ api  (deployster/container)
│  │     └─ smoke  (deployster/http)
│  └─ api  (deployster/container) …
└─ data  (deployster/volume)
   └─ db  (deployster/container) …
`
	if got := draw(t, picture.Text, web); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestDot(t *testing.T) {
	got := draw(t, picture.Dot, web)
	for _, want := range []string{"digraph {", `"api" -> "db"`, `"db" [label="db\ndeployster/container"]`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s does not have %s", got, want)
		}
	}
}

func TestMermaid(t *testing.T) {
	got := draw(t, picture.Mermaid, web)
	for _, want := range []string{"flowchart BT\n", `n0["net<br/><small>deployster/network</small>"]`, "n3 --> n2\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s does not have %s", got, want)
		}
	}
}

func TestLabelsAreNotSyntax(t *testing.T) {
	const evil = "a\"]; x -> y [\\ <script>alert(1)</script> \x1b[31m \n end #quot;"
	g := picture.Graph{Title: evil, Nodes: []picture.Node{{ID: evil, Label: evil, Detail: evil}}}
	if got := draw(t, picture.Dot, g); strings.Count(got, "\n") != 6 || strings.Contains(got, `a"]`) {
		t.Errorf("dot: %s", got)
	}
	if got := draw(t, picture.Mermaid, g); strings.Contains(got, "<script") || strings.Contains(got, `"]; x`) {
		t.Errorf("mermaid: %s", got)
	}
	if got := draw(t, picture.SVG, g); strings.Contains(got, "<script") || strings.Contains(got, "\x1b") {
		t.Errorf("svg: %s", got)
	}
	if got := draw(t, picture.Text, g); strings.Contains(got, "\x1b") || strings.Count(got, "\n") != 2 {
		t.Errorf("text: %q", got)
	}
}

type box struct{ x, y, w, h float64 }

// boxes parses an SVG and returns its boxes and how many edges it has.
func boxes(t interface{ Fatalf(string, ...any) }, svg string) (all []box, edges int) {
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return all, edges
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		value := map[string]string{}
		for _, a := range start.Attr {
			value[a.Name.Local] = a.Value
		}
		number := func(name string) float64 {
			f, err := strconv.ParseFloat(value[name], 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return f
		}
		switch value["class"] {
		case "box":
			all = append(all, box{number("x"), number("y"), number("width"), number("height")})
		case "edge":
			edges++
		}
	}
}

// Whatever the graph: the picture is well-formed, shows every node and edge,
// and no two boxes touch.
func TestSVGProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 25).Draw(t, "nodes")
		var g picture.Graph
		edges := 0
		for i := range n {
			g.Nodes = append(g.Nodes, picture.Node{
				ID: fmt.Sprint(i), Label: rapid.String().Draw(t, "label"), Detail: rapid.StringN(0, 30, -1).Draw(t, "detail"),
			})
			if i > 0 {
				for _, d := range rapid.SliceOfNDistinct(rapid.IntRange(0, i-1), 0, min(i, 4), rapid.ID).Draw(t, "dependencies") {
					g.Edges = append(g.Edges, picture.Edge{From: fmt.Sprint(i), To: fmt.Sprint(d)})
					edges++
				}
			}
		}
		var b bytes.Buffer
		if err := picture.SVG(&b, g); err != nil {
			t.Fatal(err)
		}
		found, drawn := boxes(t, b.String())
		if len(found) != n || drawn != edges {
			t.Fatalf("%d of %d nodes, %d of %d edges", len(found), n, drawn, edges)
		}
		for i, a := range found {
			for _, b := range found[:i] {
				if a.x < b.x+b.w && b.x < a.x+a.w && a.y < b.y+b.h && b.y < a.y+a.h {
					t.Fatalf("boxes overlap: %+v, %+v", a, b)
				}
			}
			if a.x < 0 || a.y < 0 {
				t.Fatalf("outside: %+v", a)
			}
		}
	})
}

func TestACycleIsDrawnRatherThanFollowed(t *testing.T) {
	g := picture.Graph{
		Nodes: []picture.Node{{ID: "a", Label: "a"}, {ID: "b", Label: "b"}},
		Edges: []picture.Edge{{"a", "b"}, {"b", "a"}},
	}
	for _, how := range []func(io.Writer, picture.Graph) error{picture.Text, picture.Dot, picture.Mermaid, picture.SVG} {
		draw(t, how, g)
	}
}
