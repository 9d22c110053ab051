package record_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/deploylog"
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

func TestWhatAPromotionWasAnsweredIsShown(t *testing.T) {
	for data, want := range map[string]string{
		`{"answer": "pull request 7: https://git.example/7"}`: "pull request 7: https://git.example/7",
		`{"error": "closed", "answer": "pull request 7"}`:     "closed",
		`{"superseded_by": "3"}`:                              "superseded by revision 3",
		`{"environment": "shop/prod"}`:                        "",
	} {
		got := record.Cause(deploylog.Event{Name: "promotion-triggered", Target: "stage/shop/prod", Data: json.RawMessage(data)})
		assert.True(t, got == want, "of %s is shown %q, not %q", data, got, want)
	}
}
