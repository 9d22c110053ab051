package typecmd

import (
	"maps"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/must"
)

func TestAPlugIsAFileOrAClaim(t *testing.T) {
	here := must.Get(filepath.Abs("site"))(t)
	want := map[string]string{"root": here, "data": "persistentvolumeclaim:data/sub"}
	got, err := testPlugs([]string{"root=site", "data=persistentvolumeclaim:data/sub"})
	assert.True(t, err == nil && maps.Equal(got, want), "%v, %v", got, err)
}
