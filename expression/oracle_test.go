package expression_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math/big"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// oracle is a running Python that answers templates as its Jinja2 does.
type oracle struct {
	version string
	in      io.WriteCloser
	out     *bufio.Reader
}

// answer is what Jinja2 makes of a template: a value, the name of an
// exception, or why there is nothing to compare with.
type answer struct {
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
	Skip  string          `json:"skip,omitempty"`
}

// startOracle starts the first Python that has Jinja2; it is nil where none
// has. Debian's comes first: another one on the path often lacks the package.
func startOracle(t *testing.T, vars map[string]any, files map[string]string) *oracle {
	t.Helper()
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import jinja2").Run() != nil {
			continue
		}
		var stderr bytes.Buffer
		cmd := exec.Command(python, "testdata/oracle.py")
		cmd.Stderr = &stderr
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			in.Close()
			err := cmd.Wait()
			assert.NoError(t, err, "%s: %v\n%s", python, err, stderr.String())
		})
		o := &oracle{in: in, out: bufio.NewReaderSize(out, 1<<20)}
		o.exchange(t, map[string]any{"vars": vars, "files": files}, &o.version)
		return o
	}
	return nil
}

func (o *oracle) exchange(t *testing.T, question, reply any) {
	t.Helper()
	line, err := json.Marshal(question)
	require.NoError(t, err)
	_, err = o.in.Write(append(line, '\n'))
	require.NoError(t, err, "Python does not read")
	line, err = o.out.ReadBytes('\n')
	require.NoError(t, err, "Python does not answer")
	require.NoError(t, json.Unmarshal(line, reply), "Python answers %.200q", line)
}

func (o *oracle) answers(t *testing.T, templates []string) []answer {
	t.Helper()
	var list []answer
	o.exchange(t, templates, &list)
	require.Len(t, list, len(templates), "Python answers")
	return list
}

// agrees reports whether a value is that of the answer. A whole number and one
// with decimals differ, and so do numbers that a float64 cannot tell apart.
func (a answer) agrees(got any) bool {
	decoder := json.NewDecoder(bytes.NewReader(a.Value))
	decoder.UseNumber()
	var want any
	return decoder.Decode(&want) == nil && sameValue(want, got)
}

func sameValue(want, got any) bool {
	switch want := want.(type) {
	case json.Number:
		if strings.ContainsAny(string(want), ".e") {
			f, err := want.Float64()
			g, isFloat := got.(float64)
			return err == nil && isFloat && reflect.DeepEqual(f, g) && (1/f < 0) == (1/g < 0)
		}
		i, isInt := got.(int64)
		exact, ok := new(big.Int).SetString(string(want), 10)
		return isInt && ok && exact.Cmp(big.NewInt(i)) == 0
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return false
		}
		for i := range want {
			if !sameValue(want[i], list[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		m, ok := got.(map[string]any)
		if !ok || len(m) != len(want) {
			return false
		}
		for key, v := range want {
			other, ok := m[key]
			if !ok || !sameValue(v, other) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(want, got)
	}
}
