package record_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/record"
)

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
