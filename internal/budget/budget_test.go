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
		up   int
	}{
		{"0", 10, 0, 0}, {"2", 10, 2, 2}, {"20", 10, 20, 20}, {"10%", 10, 1, 1}, {"10%", 19, 1, 2}, {"99.9%", 10, 9, 10}, {"100%", 3, 3, 3}, {"0%", 10, 0, 0},
		{"12.5 %", 8, 1, 1}, {"1%", 3, 0, 1}, {"1%", 0, 0, 0}, {"55%", 100, 55, 55}, {"0.7%", 1000, 7, 7},
	} {
		b, err := Parse(test.text)
		if err != nil || b.Of(test.n) != test.may || b.Up(test.n) != test.up {
			t.Errorf("%s of %d are %d, or rounded up %d, %v, want %d and %d", test.text, test.n, b.Of(test.n), b.Up(test.n), err, test.may, test.up)
		}
		if none := b.None(); none != (test.text[0] == '0' && b.Percent == 0) {
			t.Errorf("%s is none: %t", test.text, none)
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
