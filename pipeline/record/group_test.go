package record_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/pipeline/record"
)

func TestTheGroupOfAStageIsCarriedUnderItsName(t *testing.T) {
	stage, ok := record.StageOfGroup(record.CarriedGroup("eu/build"))
	assert.True(t, stage == "eu/build" && ok, "the stage is %q, %t", stage, ok)
	for _, name := range []string{"/images", "build/x", "packages.yaml"} {
		_, ok := record.StageOfGroup(name)
		assert.False(t, ok, "%s is a build group", name)
	}
}
