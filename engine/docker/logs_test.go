package docker

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
)

// Beside the text of a line, its end among it, the driver keeps up to 28 bytes. What it is told
// to keep has room for lines of any length, as they are counted.
func TestWhatIsKeptHasRoomForLinesOfAnyLength(t *testing.T) {
	const kept, own = 1 << 20, 28
	size, err := strconv.ParseInt(logConfig(engine.Spec{Kept: kept}).Config["max-size"], 10, 64)
	require.NoError(t, err)
	for _, line := range []int64{1, 2, 10, 31, 32, 33, 100, part} {
		if got := size / (line + own) * max(line, engine.KeptLine); got < kept-line-own {
			t.Errorf("of lines of %d bytes it keeps what counts for %d, not %d", line, got, int64(kept))
		}
	}
	if most := logConfig(engine.Spec{Kept: math.MaxInt64}).Config["max-size"]; most[0] == '-' {
		t.Errorf("the most is %s", most)
	}
}
