package definition

import (
	"encoding/json"
	"fmt"
	"path"
)

// Minimum is how many of n hosts must keep a healthy task. What may be without one is
// rounded down, so that neither min_healthy_percent nor max_unavailable is ever broken; but
// as Replace could do nothing where it is none, a percentage of max_unavailable is then one
// host.
func (c Configuration) Minimum(n int) int {
	if c.MaxUnavailable == nil {
		return (n*c.MinHealthyPercent + 99) / 100
	}
	most := c.MaxUnavailable.Of(n)
	if most == 0 && c.Method == Replace && !c.MaxUnavailable.None() {
		most = 1
	}
	return max(0, n-most)
}

// MostDoubled is how many of n hosts may have two tasks at once: a percentage is rounded up,
// and it is one host at least, without which Surge could do nothing.
func (c Configuration) MostDoubled(n int) int {
	if c.MaxSurge == nil {
		return c.MaxOver
	}
	return max(1, c.MaxSurge.Up(n))
}

// MinimumSetting is what Minimum is found by, as people write it.
func (c Configuration) MinimumSetting() string {
	if c.MaxUnavailable != nil {
		return fmt.Sprintf("max_unavailable %s", c.MaxUnavailable)
	}
	return fmt.Sprintf("min_healthy_percent %d", c.MinHealthyPercent)
}

// FlagFor is the flag of a command that lets so many of n hosts be without a healthy task.
func (c Configuration) FlagFor(n, down int) string {
	most := 100 * (n - down) / n
	switch {
	case c.MaxUnavailable != nil:
		return fmt.Sprintf("--max-unavailable %d", down)
	case most <= 0:
		return "--min-healthy-percent 0"
	default:
		return fmt.Sprintf("--min-healthy-percent %d or less", most)
	}
}

// SurgeSetting is what MostDoubled is found by, as people write it.
func (c Configuration) SurgeSetting() string {
	if c.MaxSurge != nil {
		return fmt.Sprintf("max_surge is %s", c.MaxSurge)
	}
	return fmt.Sprintf("max_over is %d", c.MaxOver)
}

// MarshalJSON leaves out of each pair of settings that say the same the one that does not
// decide.
func (c Configuration) MarshalJSON() ([]byte, error) {
	type plain Configuration
	all := struct {
		plain
		MinHealthyPercent *int `json:"min_healthy_percent,omitempty"`
		MaxOver           *int `json:"max_over,omitempty"`
	}{plain: plain(c)}
	if c.MaxUnavailable == nil {
		all.MinHealthyPercent = &c.MinHealthyPercent
	}
	if c.MaxSurge == nil {
		all.MaxOver = &c.MaxOver
	}
	return json.Marshal(all)
}

// pairs are settings of which one may be given, for both say the same.
var pairs = [][2]string{
	{"deployment.min_healthy_percent", "deployment.max_unavailable"},
	{"deployment.max_over", "deployment.max_surge"},
}

// bothGiven says that both settings of a pair are given.
func bothGiven(pair [2]string) string {
	return fmt.Sprintf("%s and %s are two ways to say the same: give one of them", path.Ext(pair[0])[1:], path.Ext(pair[1])[1:])
}
