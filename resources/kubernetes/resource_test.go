package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/typetest"
)

// keeping gives a type what the log of a deployment gives it: the id of a resource, and what was
// kept of it.
type keeping struct {
	typetest.Type
	id   string
	kept map[string]any
}

// Run implements typetest.Type.
func (k *keeping) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var input map[string]any
	if err := json.NewDecoder(stdin).Decode(&input); err != nil {
		return -1
	}
	input["id"], input["kept"] = k.id, k.kept
	text, err := json.Marshal(input)
	if err != nil {
		return -1
	}
	var out bytes.Buffer
	isState := len(args) == 1 && args[0] == "state"
	code := k.Type.Run(ctx, args, bytes.NewReader(text), &out, stderr)
	if !isState {
		return k.tell(&out, stdout, code)
	}
	if _, err := stdout.Write(out.Bytes()); err != nil {
		return -1
	}
	if code == 0 {
		answer, err := protocol.DecodeState(out.Bytes())
		if err != nil {
			return -1
		}
		if answer.Keep != nil {
			k.kept = answer.Keep
		}
	}
	return code
}

// tell prints what an action said without its last line, where that is to be kept.
func (k *keeping) tell(out *bytes.Buffer, stdout io.Writer, code int) int {
	said := out.String()
	before, last := "", strings.TrimSuffix(said, "\n")
	if i := strings.LastIndex(last, "\n"); i >= 0 {
		before, last = last[:i+1], last[i+1:]
	}
	kept, ok, err := protocol.DecodeKeep([]byte(last))
	if err != nil {
		return -1
	}
	if ok {
		k.kept, said = kept, before
	}
	if _, err := io.WriteString(stdout, said); err != nil {
		return -1
	}
	return code
}

func (s *server) resource(config object) (typetest.Resource, *keeping) {
	k := &keeping{Type: newType(s.connect), id: "01J9Z3NDEKTSV4RRFFQ69G5FAV/web"}
	return typetest.Resource{Type: k, Name: "web", Config: config}, k
}

func with(config object, changes object) object {
	config = maps.Clone(config)
	maps.Copy(config, changes)
	return config
}

func configMap(name string, data object) object {
	return object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": name}, "data": data}
}

func deployment(name string, replicas int, image string) object {
	return object{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": name},
		"spec": object{"replicas": replicas, "template": object{"image": image}},
	}
}

// at is a value within what JSON makes of something.
func at(t *testing.T, value any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch step := step.(type) {
		case string:
			members, _ := value.(map[string]any)
			value = members[step]
		case int:
			list, _ := value.([]any)
			if step >= len(list) {
				return nil
			}
			value = list[step]
		}
	}
	return value
}
