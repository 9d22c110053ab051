package typecmd

import (
	"maps"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPlugIsAFileOrAClaim(t *testing.T) {
	here, err := filepath.Abs("site")
	require.NoError(t, err)
	want := map[string]string{"root": here, "data": "persistentvolumeclaim:data/sub"}
	if got, err := testPlugs([]string{"root=site", "data=persistentvolumeclaim:data/sub"}); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}
