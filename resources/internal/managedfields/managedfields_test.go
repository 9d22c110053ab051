package managedfields_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/resources/internal/managedfields"
)

func decode(t testing.TB, text string) (object map[string]any) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&object), "%s", text)
	return object
}

const live = `{"metadata": {"name": "web", "labels": {"app": "web", "other": "theirs"}, "managedFields": [
	{"manager": "ours", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": {"f:replicas": {}, "f:args": {}, "f:template": {
		"f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:name": {}, "f:image": {}, "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}},
		"f:finalizers": {"v:\"a/b\"": {}}}}}},
	{"manager": "ours", "operation": "Update", "fieldsV1": {"f:spec": {"f:updated": {}}}},
	{"manager": "ours", "operation": "Apply", "subresource": "scale", "fieldsV1": {"f:spec": {"f:scaled": {}}}},
	{"manager": "kubelet", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}},
	{"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:other": {}}}}}]},
	"spec": {"replicas": 2, "default": true, "args": ["a"], "template": {"finalizers": ["a/b", "c"], "containers": [
		{"name": "sidecar", "image": "theirs"}, {"name": "web", "image": "web:1", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]}}}`

func TestFieldsThatAManagerHasApplied(t *testing.T) {
	fields, ok := managedfields.Applied(decode(t, live), "ours")
	want := []string{
		".metadata.labels.app", ".spec.args", ".spec.replicas",
		`.spec.template.containers[name="web"]`, `.spec.template.containers[name="web"].image`, `.spec.template.containers[name="web"].name`,
		`.spec.template.containers[name="web"].ports[containerPort=80,protocol="TCP"]`, `.spec.template.containers[name="web"].ports[containerPort=80,protocol="TCP"].containerPort`,
		`.spec.template.finalizers[="a/b"]`,
	}
	got := fields.Paths()
	assert.True(t, ok && slices.Equal(got, want), "%q, %v", got, ok)
	fields, ok = managedfields.Applied(decode(t, live), "kubectl-edit")
	assert.False(t, ok, "what was updated was applied: %v", fields)
	assert.Equal(t, []string{"kubectl-edit", "ours"}, managedfields.Managers(decode(t, live)), "managers")
	_, ok = managedfields.Applied(decode(t, `{"metadata": {"managedFields": "none"}}`), "ours")
	assert.False(t, ok, "there are no fields")
}

func TestOnlyFieldsOfTheSetDiffer(t *testing.T) {
	was := decode(t, live)
	fields, _ := managedfields.Applied(was, "ours")
	for name, tc := range map[string]struct {
		change  func(spec map[string]any)
		paths   []string
		undoneN string // what is undone, of the specification
	}{
		"nothing":            {func(map[string]any) {}, nil, `{"replicas":2,"args":["a"],"template":{"finalizers":["a/b"],"containers":[{"name":"web","image":"web:1","ports":[{"containerPort":80}]}]}}`},
		"what others manage": {func(spec map[string]any) { spec["default"] = false }, nil, ""},
		"a number": {
			func(spec map[string]any) { spec["replicas"] = json.Number("3") }, []string{"spec.replicas"},
			`{"replicas":2,"args":["a"],"template":{"finalizers":["a/b"],"containers":[{"name":"web","image":"web:1","ports":[{"containerPort":80}]}]}}`,
		},
		"a list as a whole":  {func(spec map[string]any) { spec["args"] = []any{"a", "b"} }, []string{"spec.args"}, ""},
		"a member that goes": {func(spec map[string]any) { delete(spec, "args") }, []string{"spec.args"}, ""},
		"an item known by its name": {
			func(spec map[string]any) {
				template := spec["template"].(map[string]any)
				template["containers"].([]any)[1].(map[string]any)["image"] = "web:2"
			},
			[]string{`spec.template.containers[name="web"].image`}, "",
		},
		"an item that goes": {
			func(spec map[string]any) {
				template := spec["template"].(map[string]any)
				template["containers"] = template["containers"].([]any)[:1]
			},
			[]string{`spec.template.containers[name="web"]`}, "",
		},
		"an item of a set": {
			func(spec map[string]any) { spec["template"].(map[string]any)["finalizers"] = []any{"c"} },
			[]string{`spec.template.finalizers[="a/b"]`}, "",
		},
		"another form": {func(spec map[string]any) { spec["template"] = "text" }, []string{"spec.template"}, ""},
	} {
		wanted := decode(t, live)
		tc.change(wanted["spec"].(map[string]any))
		differences := managedfields.Differences(was, wanted, fields)
		var paths []string
		for _, d := range differences {
			paths = append(paths, d.Path())
		}
		assert.True(t, slices.Equal(paths, tc.paths), "%s: %q, want %q", name, paths, tc.paths)
		if tc.undoneN == "" {
			continue
		}
		declared := map[string]any{"spec": decode(t, tc.undoneN)}
		tc.change(declared["spec"].(map[string]any))
		undone := managedfields.Undo(declared, differences)
		assert.True(t, reflect.DeepEqual(undone["spec"], any(decode(t, tc.undoneN))), "%s: undone is %v", name, undone)
	}
}

func TestWhatDiffersIsPutWhereItIsDeclared(t *testing.T) {
	fields := managedfields.Set(decode(t, `{"f:list": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}}, "f:set": {"v:1": {}, "v:2": {}}, "f:gone": {"f:deep": {}}}`))
	for name, tc := range map[string]struct{ live, wanted, declared, undone string }{
		"an item whose default key is not declared": {
			`{"list": [{"port": 80, "protocol": "TCP", "name": "old"}]}`, `{"list": [{"port": 80, "protocol": "TCP", "name": "new"}]}`,
			`{"list": [{"port": 80, "name": "new"}]}`, `{"list": [{"port": 80, "name": "old"}]}`,
		},
		"an item that was removed": {
			`{"list": []}`, `{"list": [{"port": 80, "protocol": "TCP", "name": "new"}]}`,
			`{"list": [{"port": 80, "name": "new"}, {"port": 81}]}`, `{"list": [{"port": 81}]}`,
		},
		"an item that is no longer declared": {
			`{"list": [{"port": 80, "protocol": "TCP", "name": "old"}]}`, `{}`, `{}`, `{"list": [{"port": 80, "protocol": "TCP", "name": "old"}]}`,
		},
		"items of a set":                    {`{"set": [1]}`, `{"set": [2]}`, `{"set": [2]}`, `{"set": [1]}`},
		"a member that is no longer needed": {`{"gone": {"deep": 1}}`, `{}`, `{}`, `{"gone": {"deep": 1}}`},
	} {
		differences := managedfields.Differences(decode(t, tc.live), decode(t, tc.wanted), fields)
		undone := managedfields.Undo(decode(t, tc.declared), differences)
		assert.True(t, reflect.DeepEqual(undone, decode(t, tc.undone)), "%s: %v, want %s", name, undone, tc.undone)
	}
}

// value is any value with mappings, whose lists are fields as a whole.
func value() *rapid.Generator[any] {
	return rapid.Deferred(func() *rapid.Generator[any] {
		return rapid.OneOf(
			rapid.Custom(func(t *rapid.T) any {
				return rapid.SampledFrom([]any{nil, "a", true, []any{"a"}, []any{}}).Draw(t, "scalar")
			}),
			rapid.Custom(func(t *rapid.T) any { return object().Draw(t, "object") }),
		)
	})
}

func object() *rapid.Generator[map[string]any] {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), value(), 0, 3)
}

func TestWhatIsUndoneIsAsItIsLive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		live, declared := object().Draw(t, "live"), object().Draw(t, "declared")
		before := must.Get(json.Marshal(declared))(t)
		undone := managedfields.Undo(declared, managedfields.Declared(live, declared))
		if left := managedfields.Declared(live, undone); len(left) > 0 {
			t.Fatalf("%v differs from %v in %v", undone, live, left[0].Path())
		}
		after, err := json.Marshal(declared)
		require.True(t, err == nil && string(after) == string(before), "the declaration was changed to %s", after)
	})
}

// Servers may say anything.
func FuzzManagedFields(f *testing.F) {
	f.Add(live, `{"spec": {"template": {"containers": [1, {"name": "web"}]}}}`)
	f.Add(`{"metadata": {"managedFields": [{"manager": "ours", "operation": "Apply", "fieldsV1": {"f:a": {"i:0": {}, "k:[]": {}, "v:{": {}, "x": {"": 1}}}}]}, "a": [1]}`, `{"a": []}`)
	f.Fuzz(func(t *testing.T, live, wanted string) {
		var was, next map[string]any
		if json.Unmarshal([]byte(live), &was) != nil || json.Unmarshal([]byte(wanted), &next) != nil {
			return
		}
		fields, _ := managedfields.Applied(was, "ours")
		fields.Paths()
		managedfields.Managers(was)
		managedfields.Undo(next, managedfields.Differences(was, next, fields))
	})
}
