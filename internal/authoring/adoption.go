package authoring

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/protocol"
)

// adoption asks for what has ids that nothing has, and then for what was made by what was kept
// of it.
func (c *checker) adoption(ctx context.Context) (verdict, error) {
	if !c.init.Adoptable {
		return skip(`init does not answer "adoptable": true`), nil
	}
	for _, id := range []string{"no-such-id", "../../no/such id", "\"';$(exit 1)\n\\", strings.Repeat("0123456789", 100)} {
		said, answer, failure, err := c.adopt(ctx, id)
		if err == nil && failure == nil && said.exit.Code != 0 {
			failure = c.refusal(said)
		}
		if err != nil {
			return verdict{}, err
		}
		if failure != nil {
			failure.detail = fmt.Sprintf("asked to adopt %.40q, which nothing has as its id: %s", id, failure.detail)
			return *failure, nil
		}
		if exists(answer) {
			return fail(`asked to adopt %.40q, which nothing has as its id, state found something: %s; with "adopt" look for what has that id, and for nothing else`,
				id, received(c.hide(said.stdout))), nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.one.kept)) {
		id, is := c.one.kept[name].(string)
		if !is || id == "" {
			continue
		}
		_, answer, failure, err := c.adopt(ctx, id)
		switch {
		case err != nil:
			return verdict{}, err
		case failure != nil || !exists(answer): // it is no id
		case len(answer.Keep) == 0:
			return fail(`asked to adopt what has the id that was kept as %q, state found it, and had nothing kept: answer "keep" too, or it is not found again`, name), nil
		default:
			return pass("found by what was kept as %q", name), nil
		}
	}
	return pass(""), nil
}

// adopt asks for what has an id. An answer that is an error is empty.
func (c *checker) adopt(ctx context.Context, id string) (said said, answer protocol.StateOutput, failure *verdict, err error) {
	in := c.stateInput(protocol.Present)
	in.Adopt, in.Kept = id, map[string]any{}
	if said, failure, err = c.askLooking(ctx, in); err != nil || failure != nil || said.exit.Code != 0 {
		return said, answer, failure, err
	}
	answer, failure = c.stated(said)
	return said, answer, failure, nil
}

// exists reports whether an answer has found something.
func exists(answer protocol.StateOutput) bool {
	return answer.Status == protocol.Valid || answer.StaleState != nil
}
