package typecmd

import (
	"maps"
	"path/filepath"
	"testing"
)

func TestAPlugIsAFileOrAClaim(t *testing.T) {
	here, err := filepath.Abs("site")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"root": here, "data": "persistentvolumeclaim:data/sub"}
	if got, err := testPlugs([]string{"root=site", "data=persistentvolumeclaim:data/sub"}); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}
