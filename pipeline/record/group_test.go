package record_test

import (
	"testing"

	"github.com/deployster-go/deployster/pipeline/record"
)

func TestTheGroupOfAStageIsCarriedUnderItsName(t *testing.T) {
	if stage, ok := record.StageOfGroup(record.CarriedGroup("eu/build")); stage != "eu/build" || !ok {
		t.Errorf("the stage is %q, %t", stage, ok)
	}
	for _, name := range []string{"/images", "build/x", "packages.yaml"} {
		if _, ok := record.StageOfGroup(name); ok {
			t.Errorf("%s is a build group", name)
		}
	}
}
