package yamlfile_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/yamlfile"
)

// Of a value without quotes, some texts are lost, and some are not the same for all that read YAML.
func TestTextsThatAreLostWithoutQuotes(t *testing.T) {
	why := func(value string) (found string) {
		err := yamlfile.Read("v.yaml", []byte("v: "+value+"\n"), "", func(root *yamlfile.Node) { found = root.Child("v").Lost() })
		assert.NoError(t, err, value)
		return found
	}
	for value, says := range map[string]string{
		"020222070707": "is the number", "0644": "is the number 420", "1.10": "is the number 1.1,", "1e5": "100000", "0x1F": "31", "0o17": "15", "1_000": "1000",
		"+5": "is the number 5", ".5": "0.5", "089": "89", "12e4567": "number for some readers", "22:30": "number for some readers", "no": "true or false for some readers", "Off": "true or false",
	} {
		assert.True(t, strings.HasPrefix(why(value), value) && strings.Contains(why(value), says), "%s: %q", value, why(value))
		for _, quoted := range []string{`"` + value + `"`, "'" + value + "'", "|\n  " + value, "!!str " + value} {
			assert.Empty(t, why(quoted))
		}
	}
	for _, value := range []string{"5176135", "-3", "1.5", "1.0", "1e+300", "true", "True", "y", "~", "v1.10", "abc1234", "1.10.2", "2026-11-29", "10:99", "nothing"} {
		assert.Empty(t, why(value), value)
	}
}
