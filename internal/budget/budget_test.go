package budget

import (
	"encoding/json"
	"testing"
)

func TestABudgetIsReadAsPeopleWriteIt(t *testing.T) {
	for _, test := range []struct {
		text string
		n    int
		may  int
	}{
		{"0", 10, 0}, {"2", 10, 2}, {"20", 10, 20}, {"10%", 10, 1}, {"10%", 19, 1}, {"99.9%", 10, 9}, {"100%", 3, 3}, {"0%", 10, 0}, {"12.5 %", 8, 1},
	} {
		b, err := Parse(test.text)
		if err != nil || b.Of(test.n) != test.may {
			t.Errorf("%s of %d are %d, %v, want %d", test.text, test.n, b.Of(test.n), err, test.may)
		}
		data, err := json.Marshal(b)
		var stored Budget
		if err != nil || json.Unmarshal(data, &stored) != nil || stored != b {
			t.Errorf("%s is stored as %s, and read as %v, %v", test.text, data, stored, err)
		}
	}
	for _, text := range []string{"", "-1", "1.5", "x", "%", "101%", "-1%", "NaN%", "1e999%", "2 hosts"} {
		if b, err := Parse(text); err == nil {
			t.Errorf("%q is read as %v", text, b)
		}
	}
	var b Budget
	if err := json.Unmarshal([]byte("3"), &b); err != nil || b.Count != 3 {
		t.Errorf("a number is read as %v, %v", b, err)
	}
}
