package value_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	goccy "github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	sigs "sigs.k8s.io/yaml"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/pullrequest/value"
)

func path(t testing.TB, text string) value.Path {
	t.Helper()
	p, err := value.Parse(text)
	require.NoError(t, err, "path %s", text)
	return p
}

func TestOnlyTheBytesOfTheValueChange(t *testing.T) {
	for name, c := range map[string]struct{ file, path, to, want string }{
		"a plain text":                    {"# top\nimage:\n  tag:   v1   # keep\n\nother: 1\n", "image.tag", "v2", "# top\nimage:\n  tag:   v2   # keep\n\nother: 1\n"},
		"a number stays one":              {"tag: 41\n", "tag", "42", "tag: 42\n"},
		"a text does not become a number": {"tag: v1\n", "tag", "42", "tag: \"42\"\n"},
		"a number may become a text":      {"tag: 41\n", "tag", "v1: x", "tag: \"v1: x\"\n"},
		"single quotes":                   {"a: {b: ' it''s'}\n", "a.b", "it's", "a: {b: 'it''s'}\n"},
		"double quotes":                   {"a: [\"x\\\"y\", 'z']\n", "a[0]", "q\"<r>", "a: [\"q\\\"<r>\", 'z']\n"},
		"an element by its member":        {"images:\n- name: web\n  newTag: a\n- newTag: b\n  name: shop/app\n", `images[name=shop/app].newTag`, "c", "images:\n- name: web\n  newTag: a\n- newTag: c\n  name: shop/app\n"},
		"a key with a dot":                {"a.b: {\"c\": 1}\n", `["a.b"].c`, "2", "a.b: {\"c\": 2}\n"},
		"JSON":                            {"{\n  \"image\": {\"tag\": \"1\",\t\"n\": 1}\n}\n", "image.tag", "2", "{\n  \"image\": {\"tag\": \"2\",\t\"n\": 1}\n}\n"},
		"a number of JSON":                {"{\"n\": 1}", "n", "v2", "{\"n\": \"v2\"}"},
		"the second document":             {"kind: A\n---\nkind: B\nspec: {tag: 1}\n", "spec.tag", "2", "kind: A\n---\nkind: B\nspec: {tag: 2}\n"},
		"lines of Windows":                {"a: 1\r\nü: {é: x}\r\n", "ü.é", "z", "a: 1\r\nü: {é: z}\r\n"},
		"the same":                        {"a: 'x'\n", "a", "x", "a: 'x'\n"},
		"without an end of line":          {"a: x", "a", "yes", "a: \"yes\""},
		"a mark at the beginning":         {"\ufeffa: x\nb: 1\n", "a", "z", "\ufeffa: z\nb: 1\n"},
		"an element by an aliased name":   {"x: &main web\nc:\n- name: &web other\n  tag: a\n- name: *main\n  tag: b\n", "c[name=web].tag", "d", "x: &main web\nc:\n- name: &web other\n  tag: a\n- name: *main\n  tag: d\n"},
		"a key by an alias":               {"x: &k tag\n*k : a\n", "tag", "b", "x: &k tag\n*k : b\n"},
		"SOPS that covers no plain value": {"tag: a\npassword: ENC[AES256_GCM,data:x]\nsops: {mac: m, mac_only_encrypted: true}\n", "tag", "b", "tag: b\npassword: ENC[AES256_GCM,data:x]\nsops: {mac: m, mac_only_encrypted: true}\n"},
		"a document by its members":       {"kind: A\nmetadata: {name: x}\ntag: 1\n---\nkind: A\nmetadata: {name: y}\ntag: 1\n", "[kind=A,metadata.name=y].tag", "2", "kind: A\nmetadata: {name: x}\ntag: 1\n---\nkind: A\nmetadata: {name: y}\ntag: 2\n"},
		"a document by its number":        {"tag: 1\n---\ntag: 1\n", "[1].tag", "2", "tag: 1\n---\ntag: 2\n"},
		"an element by two members":       {"- {name: a, kind: b, v: 1}\n- {name: a, kind: c, v: 1}\n", "[name=a,kind=c].v", "2", "- {name: a, kind: b, v: 1}\n- {name: a, kind: c, v: 2}\n"},
		"a value with a comma":            {"- {name: 'a,b', v: 1}\n", "[name=a,b].v", "2", "- {name: 'a,b', v: 2}\n"},
		"a document with another form":    {"image: {tag: 1}\n---\nimage: a\n", "image", "b", "image: {tag: 1}\n---\nimage: b\n"},
		"YAML 1.2":                        {"%YAML 1.2\n---\ntag: a\n", "tag", "b", "%YAML 1.2\n---\ntag: b\n"},
		"escapes of JSON":                 {`{"u": "http:\/\/x\\/", "f": "\ud83d\ude00", "tag": "a\/b"}`, "tag", "c", `{"u": "http:\/\/x\\/", "f": "\ud83d\ude00", "tag": "c"}`},
		"the same with escapes of JSON":   {`{"tag": "a\/\ud83d\ude00"}`, "tag", "a/😀", `{"tag": "a\/\ud83d\ude00"}`},
		"a key with escapes of JSON":      {`{"a\/\ud83d\ude00": {"b\\": "1", "c\/d": [{"n\/m": "x\/y", "tag": "1"}]}}`, `["a/😀"]["c/d"][n/m=x/y].tag`, "2", `{"a\/\ud83d\ude00": {"b\\": "1", "c\/d": [{"n\/m": "x\/y", "tag": "2"}]}}`},
		"a template elsewhere":            {"a: '{{ x }}'\nb: 1\n", "b", "2", "a: '{{ x }}'\nb: 2\n"},
		"two lines in quotes":             {"a: \"x\n  y\"\nb: 1\n", "a", "z", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := path(t, c.path).Set([]byte(c.file), c.to)
			if c.want == "" {
				require.Error(t, err, "it became %q", got)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
			now := must.Get(path(t, c.path).Get(got))(t)
			assert.Equal(t, c.to, now)
		})
	}
}

func TestWhatIsNotCertainIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ file, path, want string }{
		"no such key":        {"image: {tag: 1}\n", "image.tog", `image has no key "tog" (line 1); did you mean "tag"?`},
		"a mapping":          {"image: {tag: 1}\n", "image", "image is a mapping, not one value (line 1): lead the path further"},
		"SOPS":               {"tag: a\nsops:\n  mac: m\n", "tag", "the file is encrypted by SOPS"},
		"an encrypted value": {"tag: ENC[AES256_GCM,data:x]\nsops: {mac: m, mac_only_encrypted: true}\n", "tag", "the file is encrypted by SOPS"},
		"an anchor's name":   {"- name: &web main\n  tag: a\n- name: *web\n  tag: b\n", "[name=web].tag", "no element of the file is [name=web]"},
		"an alias":           {"a: &x 1\nb: *x\n", "b", "b is the alias *x (line 2)"},
		"an anchor":          {"a: &x 1\nb: *x\n", "a", "a has the anchor &x (line 1)"},
		"an anchor before":   {"a: &x {b: 1}\nc: *x\n", "a.b", "a has the anchor &x"},
		"through an alias":   {"a: &x {b: 1}\nc: *x\n", "c.b", "c is the alias *x"},
		"two documents":      {"a: 1\n---\na: 2\n", "a", "2 of its documents have a: begin the path with the document that is meant, such as [1].a"},
		"a key twice":        {"a: 1\na: 2\n", "a", `has the key "a" twice (lines 1 and 2): remove one of them`},
		"two elements":       {"- {name: a, v: 1}\n- {name: a, v: 2}\n", "[name=a].v", "several elements of the file are [name=a] (lines 1 and 2): name another member"},
		"no document":        {"kind: A\n---\nkind: B\n", "[kind=C].a", "no document is [kind=C]"},
		"no element":         {"- {name: a}\n", "[name=b].v", "no element of the file is [name=b]"},
		"too few elements":   {"a: [1]\n", "a[1]", "a has 1 elements, so there is no a[1]"},
		"a block":            {"a: |\n  x\n", "a", "it is written as a block (| or >): write it on one line"},
		"a tag":              {"a: !!str 1\n", "a", "it has a tag of its own"},
		"nothing":            {"a:\nb: 1\n", "a", "there is no value yet"},
		"an empty file":      {"", "a", "it is empty: write a first value there"},
		"no YAML":            {"a: [\n", "a", "it is neither YAML nor JSON"},
		"no text":            {"a: \xff\n", "a", "it is not text in UTF-8: save it as that"},
		"more than one line": {"a: x\n  y\n", "a", "where it is written is not known for certain"},
		"too large":          {strings.Repeat("#", value.MaxFile+1), "a", "at most"},
		"many documents":     {"a: 1\n" + strings.Repeat("---\n", 1<<18), "a", "it has more than 10000 documents of YAML"},
		"a merged key":       {"a: &x {b: 1}\nc:\n  <<: *x\n", "c.b", `c has no key "b" (line 3) of its own: others may have it, too, by the merge key <<; write "b" into this mapping`},
		"a pointer of LFS":   {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n", "a", "it is a pointer of Git LFS, so its contents are elsewhere: keep this file in git itself"},
		"a template":         {"a: 1\n{{- if .Values.x }}\nb: 2\n{{- end }}\n", "a", "it is a template ({{ in line 2), and no YAML before it is filled in: name the file that has its values"},
		"one of its own":     {"image:\n  tag: {{ .Values.tag }}\n", "image.tag", "image.tag (line 2) is filled in by a template ({{): set the value that the template reads, as in values.yaml"},
		"a value of one":     {"image: 'shop:{{ .Values.tag }}'\n", "image", `"shop:{{ .Values.tag }}" is filled in by a template: set the value that the template reads`},
		"a value of no list": {"a: {b: 1}\n", "a[0]", "a is a mapping, not a list"},
	} {
		_, err := path(t, c.path).Set([]byte(c.file), "new")
		assert.ErrorContains(t, err, c.want, name)
	}
}

func TestPathsThatLeadNowhere(t *testing.T) {
	for _, text := range []string{"", ".", "a.", ".a", "a..b", "a[", "a[]", "a[-1]", "a[x]", "a[x=", "a[=x]", `a["b]`, "a[0]b", `a]`, `a[x="1",`, `a[x="1"y]`, "a[x=1,y=2,x=3]", strings.Repeat("a.", 60) + "a"} {
		_, err := value.Parse(text)
		assert.Error(t, err, text)
	}
}

func TestTagsOfImages(t *testing.T) {
	for image, want := range map[string]string{"shop:1": "shop:2", "localhost:5000/a/shop": "localhost:5000/a/shop:2", "localhost:5000/shop:x": "localhost:5000/shop:2", "shop@sha256:ab": "", "": ":2",
		"shop:${TAG:=v1}": "", "shop:${TAG}": "", "${NAME}:1": "", "${IMAGE}": "", "{{ image }}": "", "shop:": ""} {
		got, _ := value.WithTag(image, "2")
		assert.Equal(t, want, got, image)
	}
	_, err := value.WithTag("shop:1", "a b")
	assert.Error(t, err, "a tag with a space is possible")
}

// A file of very many documents is read no further than it may be: what that costs does not grow
// with the file.
func TestManyDocumentsAreNotAllRead(t *testing.T) {
	allocated := func(size int) float64 {
		file := []byte("a: 1\n" + strings.Repeat("---\n", size/len("---\n")))
		return testing.AllocsPerRun(1, func() { _, _ = path(t, "a").Set(file, "2") })
	}
	if small, large := allocated(1<<17), allocated(1<<20); large > 1.1*small {
		t.Errorf("%.0f allocations for 128 KiB, and %.0f for 1 MiB", small, large)
	}
	few := "a: 1\n" + strings.Repeat("---\nb: 1\n", 9_999)
	if got, err := path(t, "a").Set([]byte(few), "2"); err != nil || string(got) != "a: 2"+few[len("a: 1"):] {
		t.Errorf("10000 documents: %v", err)
	}
}

// Whatever the file and the value, either nothing is written, or what is written reads as the
// same but for that value.
func FuzzSet(f *testing.F) {
	f.Add("a: 1 # x\nb: [c, {d: 'e'}]\n", "a", "v2")
	f.Add("b: [c, {d: 'e'}]\n", "b[1].d", "x'\"\n")
	f.Add("{\"a\": {\"b\": \"c\"}}", "a.b", "\u2028")
	f.Add("\ufeffa: 1\r\nb: \u0085x\n", "b", "- x")
	f.Fuzz(func(t *testing.T, file, text, to string) {
		p, err := value.Parse(text)
		if err != nil {
			return
		}
		before := file
		got, err := p.Set([]byte(file), to)
		if err != nil {
			return
		}
		require.Equal(t, before, file, "the file was changed")
		if now, err := p.Get(got); err != nil || now != to {
			t.Fatalf("%q reads %q, not %q: %v", got, now, to, err)
		}
		old, _ := p.Get([]byte(file))
		back, err := p.Set(got, old)
		if err != nil {
			return // such as a tag that the text needed
		}
		var a, b any
		if yaml.Unmarshal([]byte(file), &a) == nil && yaml.Unmarshal(back, &b) != nil {
			t.Fatalf("%q was changed to %q and back to %q, which cannot be read", file, got, back)
		}
	})
}

// readers are how programs read the files that people keep: Flux and Argo CD, Helm and kubectl,
// and readers of YAML 1.2.
var readers = map[string]func([]byte, any) error{
	"yaml.v3":  yaml.Unmarshal,
	"sigs":     func(text []byte, to any) error { return sigs.Unmarshal(text, to) },
	"JSON":     json.Unmarshal,
	"YAML 1.2": func(text []byte, to any) error { return goccy.Unmarshal(text, to) },
}

func TestEveryReaderReadsWhatWasWritten(t *testing.T) {
	versions := []string{
		"1.10", "1.9", "1.2.3", "v2", "42", "007", "0123456", "1234567", "12e4567", "1e3", "0x1f", "0x1234567890abcdef1234", "0o17", "0b11", "1_000", "1:30",
		"on", "Off", "yes", "n", "true", "null", "~", "=", ".inf", ".NaN", "2026-11-29", "main-4a5b6c7", "4a5b6c7", "1234e56", "sha256:4a5b", "1.0.0+build5",
		"-1", "+1", "1.", ".5", "a: b", "a #b", "é", "",
	}
	for name, file := range map[string]string{
		"a number":    "tag: 1.9\n",
		"an integer":  "tag: 41\n",
		"null":        "tag: null\n",
		"a tilde":     "tag: ~\n",
		"a text":      "tag: v1\n",
		"quotes":      "tag: 'v1'\n",
		"JSON":        `{"tag": 1.9}`,
		"JSON's null": `{"tag": null}`,
		"a true":      "tag: on\n",
		"two quotes":  "tag: \"v1\"\n",
		"a comment":   "a: 1\ntag: 1.9   # of prod\n",
		"CRLF":        "a: 1\r\ntag: 1.9\r\n",
		"no end":      "tag: 1.9",
		"braces":      "{a: [1], tag: 1.9, b: 2}\n",
		"a directive": "%YAML 1.2\n---\ntag: 1.9\n",
		"escapes":     `{"a\/b": "\ud83d\ude00", "tag": "v1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, to := range versions {
				changed, err := path(t, "tag").Set([]byte(file), to)
				require.NoError(t, err, to)
				for reader, read := range readers {
					var got map[string]any
					if read([]byte(file), &got) != nil {
						continue // it reads no such file
					}
					got = nil
					require.NoError(t, read(changed, &got), "%s reads %q", reader, changed)
					assert.Equal(t, to, fmt.Sprint(got["tag"]), "%s reads %q", reader, changed)
				}
				if json.Valid([]byte(file)) {
					assert.True(t, json.Valid(changed), "%q", changed)
				}
			}
		})
	}
}

func TestANumberIsReadAsProgramsReadIt(t *testing.T) {
	for text, want := range map[string]string{"1.10": "1.1", "1.1": "1.1", "'1.10'": "1.10", "42": "42", "0123456": "42798", "1e3": "1000", "v1.10": "v1.10",
		"on": "true", "Yes": "true", "N": "false", "'on'": "on", "oN": "oN"} {
		got := must.Get(path(t, "tag").Get([]byte("tag: " + text + "\n")))(t)
		assert.Equal(t, want, got, text)
	}
}
