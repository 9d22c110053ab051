package jobs_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
)

// A job that forgets the KEY= has written a line that may look like one, if its secret has an
// =. No part of that is recorded.
func TestASecretIsNoMetadata(t *testing.T) {
	for name, c := range map[string]struct{ secret, line, want string }{
		"its beginning is like a key":   {"c2VjcmV0Mg==", "c2VjcmV0Mg==", "failed: what it wrote to $DEPLOYSTER_METADATA: line 1 has no =: …"},
		"its beginning is not":          {"hR7+c2VjcmV0Mg==", "hR7+c2VjcmV0Mg==", "failed: what it wrote to $DEPLOYSTER_METADATA: line 1 has no =: …"},
		"it is a key":                   {"c2VjcmV0Mg", "c2VjcmV0Mg=1", `failed: what it wrote to $DEPLOYSTER_METADATA: line 1: "(secret)" is no key: …`},
		"it is part of a key":           {"c2VjcmV0Mg", "a_c2VjcmV0Mg=1", `failed: what it wrote to $DEPLOYSTER_METADATA: line 1: "a_(secret)" is no key: …`},
		"it is longer than what is cut": {strings.Repeat("c2VjcmV0", 20), strings.Repeat("c2VjcmV0", 20) + "=1", `failed: what it wrote to $DEPLOYSTER_METADATA: line 1: "(secret)" is no key: …`},
		"it is a value":                 {"c2VjcmV0Mg==", "a=c2VjcmV0Mg==", `finished {"a":"(secret)"}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fakeEngine())
			w.options.Secrets = func(context.Context, record.Carries, recipe.Recipe) (map[string]string, error) {
				return map[string]string{"TOKEN": c.secret}, nil
			}
			w.restart()
			r := w.recipe("append " + metadata + " " + c.line)
			r.Secrets = map[string]recipe.Secret{"TOKEN": {Value: "{{ token }}"}}
			result := w.jobs.Build(t.Context(), w.task(r))
			w.wants(result, c.want)
			if text, err := json.Marshal(result); err != nil || strings.Contains(string(text), c.secret[:8]) {
				t.Errorf("recorded is %s, %v", text, err)
			}
			w.clean()
		})
	}
}
