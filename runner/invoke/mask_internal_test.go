package invoke

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/protocol"
)

// spell writes a text into JSON, each character in one of the ways there are.
func spell(t *rapid.T, text string) string {
	var b strings.Builder
	for _, c := range text {
		ways := []string{string(c)}
		if at := strings.IndexRune("\"\\/\b\f\n\r\t", c); at >= 0 {
			ways = append(ways, `\`+string(`"\/bfnrt`[at]))
		}
		if c == '"' || c == '\\' || c < ' ' {
			ways = ways[1:]
		}
		for _, hex := range []string{`\u%04x`, `\u%04X`} {
			units := ""
			for _, unit := range utf16.Encode([]rune{c}) {
				units += fmt.Sprintf(hex, unit)
			}
			ways = append(ways, units)
		}
		b.WriteString(rapid.SampledFrom(ways).Draw(t, "way"))
	}
	return b.String()
}

func TestASecretIsHiddenHoweverJSONSpellsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[a-c/"\\\n<äÄ世😀]{4,12}`).Draw(t, "secret")
		var s Secrets
		s.Add(map[string]any{"token": secret}, [][]string{{"token"}})
		spelled := secret
		for range rapid.IntRange(0, encodings).Draw(t, "times") {
			spelled = spell(t, spelled)
		}
		got := s.Mask("[" + spelled + "]")
		require.Equal(t, "["+Masked+"]", got, "%q, spelled %s, is shown as %s", secret, spelled, got)
	})
}

func TestTheSpellingsOfCommonEncodersAreHidden(t *testing.T) {
	var s Secrets
	s.Add(map[string]any{"a": `pässwörd/"1"`, "b": "😀smile", "c": "four\nlines\nof text"}, [][]string{{"a"}, {"b"}, {"c"}})
	for text, want := range map[string]string{
		`pässwörd/"1"`:                                   Masked,
		`x pässwörd\/\"1\" y`:                            "x " + Masked + " y",
		`p\u00e4ssw\u00f6rd/\"1\"`:                       Masked,
		`p\u00E4ssw\u00F6rd\/\"1\"`:                      Masked,
		`p\u00E4ssw\u00f6rd\u002f\u00221\u0022`:          Masked,
		`{\"token\":\"p\\u00e4ssw\\u00f6rd/\\\"1\\\"\"}`: `{\"token\":\"` + Masked + `\"}`,
		`\ud83d\ude00smile \uD83D\uDE00smile`:            Masked + " " + Masked,
		`four\nlines\nof text`:                           Masked,
		"lines":                                          Masked,
		`C:\users\u00zz \ud83d`:                          `C:\users\u00zz \ud83d`,
		`ends in \`:                                      `ends in \`,
	} {
		assert.Equal(t, want, s.Mask(text), text)
	}
}

// naive marks what each word covers by looking for each at each place.
func naive(known map[string]bool, text string) []bool {
	covered := make([]bool, len(text))
	for i := range text {
		for word := range known {
			if strings.HasPrefix(text[i:], word) {
				for j := range len(word) {
					covered[i+j] = true
				}
			}
		}
	}
	return covered
}

func TestAllOccurrencesOfAllWordsAreFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w words
		added, size := 0, 0
		text := rapid.StringMatching(`[abc]{0,60}`)
		for _, word := range rapid.SliceOfN(rapid.StringMatching(`[abc]{1,9}`), 1, 20).Draw(t, "words") {
			if !w.known[word] {
				added, size = added+1, size+len(word)
			}
			w.add(word)
			drawn := text.Draw(t, "text")
			covered := make([]bool, len(drawn))
			w.find([]byte(drawn), func(start, end int) {
				for i := start; i < end; i++ {
					covered[i] = true
				}
			})
			require.Equal(t, fmt.Sprint(naive(w.known, drawn)), fmt.Sprint(covered), drawn)
		}
		for i := 1; i < len(w.parts); i++ {
			require.GreaterOrEqual(t, w.parts[i-1].size, 2*w.parts[i].size)
		}
	})
}

// What a text costs must not grow with the secrets: a secret that begins like
// the text at every place, and nowhere ends, is the worst there is.
func TestMaskingIsLinear(t *testing.T) {
	text := []byte(strings.Repeat("a", 100_000))
	for _, length := range []int{10, 1_000, 50_000} {
		var w words
		w.add(strings.Repeat("a", length) + "b")
		looks, _ := w.parts[0].find(text, func(int, int) { t.Error("found") })
		assert.LessOrEqual(t, looks, 2*len(text), length)
	}
}

// Secrets become known one by one; adding one must not cost what all do.
func TestAddingWordsIsCheap(t *testing.T) {
	var w words
	made := 0
	const count = 4096
	for i := range count {
		w.add(fmt.Sprintf("secret-%06d", i))
		made += len(w.parts[len(w.parts)-1].words)
	}
	// Each word is taken into another automaton at most as often as the sizes double.
	assert.LessOrEqual(t, made, count*14, count)
	assert.LessOrEqual(t, len(w.parts), 14, count)
}

// Both sides are measured in one run: the ratio is what a byte costs beside a secret of 64 KiB, against one of 16 bytes.
func BenchmarkMask(b *testing.B) {
	text := strings.Repeat("a", 1<<20)
	escaped := must.Get(json.Marshal(strings.Repeat(`a"`, 1<<18)))(b)
	logs := strings.Repeat("2026-11-30T21:51:18Z INFO  fetched https://example.com/index.html in 12 ms\n", 12_000)
	for name, text := range map[string]string{"plain": text, "escaped": string(escaped), "logs": logs, "größer": strings.ReplaceAll(logs, "example", "größer"), "colored": strings.ReplaceAll(logs, "INFO", "\x1b[32mINFO\x1b[0m")} {
		b.Run(name, func(b *testing.B) {
			var short, long words
			short.add(strings.Repeat("a", 16) + "b")
			long.add(strings.Repeat("a", 64<<10) + "b")
			var spent [2]time.Duration
			for b.Loop() {
				for i, w := range []*words{&short, &long} {
					start := time.Now()
					w.replace(text, Masked)
					spent[i] += time.Since(start)
				}
			}
			b.ReportMetric(float64(spent[0].Nanoseconds())/float64(b.N*len(text)), "short-ns/byte")
			b.ReportMetric(float64(spent[1].Nanoseconds())/float64(b.N*len(text)), "long-ns/byte")
			b.ReportMetric(float64(spent[1])/float64(spent[0]), "long/short")
		})
	}
}

func TestWhatContainersSee(t *testing.T) {
	w, linked, plug := t.TempDir(), t.TempDir(), engine.Mount{Source: "/srv/site", Target: "/plug/root"}
	work := filepath.Join(w, "call")
	require.NoError(t, os.Mkdir(filepath.Join(w, engine.StateDir), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(linked, "kept"), 0o700))
	require.NoError(t, os.Symlink("kept", filepath.Join(linked, engine.StateDir)))
	of := func(dir string) engine.Mount { return engine.Mount{Source: dir, Target: dir, ReadOnly: true} }
	for name, c := range map[string]struct {
		in                    string // the workspace; "" is w
		remote, copies, works bool
		mounts                []engine.Mount
		env, hide             []string
	}{
		"an engine of this machine":                                {mounts: []engine.Mount{of(w), {Source: work + workSuffix, Target: protocol.WorkDir}, plug}, env: []string{"DEPLOYSTER_WORKSPACE=" + w, "DEPLOYSTER_WORK=" + protocol.WorkDir}, hide: []string{filepath.Join(w, engine.StateDir)}},
		"one that is elsewhere":                                    {remote: true, mounts: []engine.Mount{plug}},
		"one that gives each container a work directory":           {remote: true, works: true, mounts: []engine.Mount{plug}, env: []string{"DEPLOYSTER_WORK=" + protocol.WorkDir}},
		"one that does both":                                       {remote: true, copies: true, works: true, mounts: []engine.Mount{of(w), plug}, env: []string{"DEPLOYSTER_WORK=" + protocol.WorkDir, "DEPLOYSTER_WORKSPACE=" + w}, hide: []string{filepath.Join(w, engine.StateDir)}},
		"one that copies the workspace":                            {remote: true, copies: true, mounts: []engine.Mount{of(w), plug}, env: []string{"DEPLOYSTER_WORKSPACE=" + w}, hide: []string{filepath.Join(w, engine.StateDir)}},
		"one that copies a workspace whose state is behind a link": {in: linked, remote: true, copies: true, mounts: []engine.Mount{of(linked), plug}, env: []string{"DEPLOYSTER_WORKSPACE=" + linked}, hide: []string{filepath.Join(linked, "kept")}},
	} {
		dir := cmp.Or(c.in, w)
		v := &Invoker{containers: Containers{Workspace: dir, Remote: c.remote, Copies: c.copies, Works: c.works}}
		spec, err := v.containerSpec(protocol.Invocation{}, engine.Image{ID: "sha256:1"}, []engine.Mount{plug}, false, nil, work)
		require.NoError(t, err)
		for i := range spec.Mounts {
			assert.Equal(t, spec.Mounts[i].Source != plug.Source, spec.Mounts[i].Found.Path != "", "%s: what %s leads to is pinned", name, spec.Mounts[i].Source)
			spec.Mounts[i].Found = engine.Found{}
		}
		in, at := "", ""
		if c.copies || !c.remote {
			in = dir
		}
		if c.works {
			at = protocol.WorkDir
		}
		assert.True(t, reflect.DeepEqual(spec.Mounts, c.mounts) && slices.Equal(spec.Env, c.env) &&
			slices.Equal(spec.Hide, c.hide) && spec.WorkDir == in && spec.Work == at, "%s: %+v", name, spec)
	}
}
