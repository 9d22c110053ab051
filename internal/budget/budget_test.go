package budget

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

func TestABudgetIsReadAsPeopleWriteIt(t *testing.T) {
	for _, test := range []struct {
		text       string
		n, may, up int
	}{
		{"0", 10, 0, 0}, {"2", 10, 2, 2}, {"20", 10, 20, 20}, {"10%", 10, 1, 1}, {"10%", 19, 1, 2}, {"99.9%", 10, 9, 10}, {"100%", 3, 3, 3}, {"0%", 10, 0, 0},
		{"12.5 %", 8, 1, 1}, {"1%", 3, 0, 1}, {"1%", 0, 0, 0}, {"55%", 100, 55, 55}, {"0.7%", 1000, 7, 7},
	} {
		b := must.Get(Parse(test.text))(t)
		assert.Equal(t, test.may, b.Of(test.n), "%s of %d", test.text, test.n)
		assert.Equal(t, test.up, b.Up(test.n), "%s of %d, rounded up", test.text, test.n)
		assert.Equal(t, test.text[0] == '0' && b.Percent == 0, b.None(), test.text)
		data := must.Get(json.Marshal(b))(t)
		var stored Budget
		require.NoError(t, json.Unmarshal(data, &stored))
		assert.Equal(t, b, stored)
	}
	for _, text := range []string{"", "-1", "1.5", "x", "%", "101%", "-1%", "NaN%", "1e999%", "2 hosts"} {
		_, err := Parse(text)
		assert.Error(t, err, text)
	}
	var b Budget
	require.NoError(t, json.Unmarshal([]byte("3"), &b))
	assert.Equal(t, 3, b.Count)
}
