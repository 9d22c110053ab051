package pages

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each host is one cell, in order, and the link around it leads to the page of details that
// begins at most so many hosts before it.
func TestCellsLeadToThePageThatHasTheirHosts(t *testing.T) {
	g := grid{at: 7}
	const hosts = chunk + 3*mostHosts/2
	for i := range hosts {
		g.add(fmt.Sprint("h", i), hostState{Code: 'c', Name: "current"})
	}
	seen, tag := 0, regexp.MustCompile(`<(/?[a-z]+)([^>]*)>`)
	from := -1
	for _, found := range tag.FindAllStringSubmatch(string(g.html()), -1) {
		switch found[1] {
		case "a":
			text := regexp.MustCompile(`href="\?state=all&amp;from=(\d+)&amp;at=7#details"`).FindStringSubmatch(found[2])
			require.NotNil(t, text, found[0])
			from, _ = strconv.Atoi(text[1])
		case "/a":
			from = -1
		case "i":
			require.Equal(t, fmt.Sprintf(` class="cell c" title="h%d: current"`, seen), found[2], "cell %d", seen)
			require.True(t, from >= 0 && from <= seen && seen < from+mostHosts, "cell %d leads to the hosts from %d", seen, from)
			seen++
		}
	}
	assert.Equal(t, hosts, seen, "cells")
	assert.Equal(t, 2, strings.Count(string(g.html()), `<div class="chunk">`), "chunks of %d hosts", hosts)
	assert.Empty(t, (&grid{}).html(), "a grid without hosts")
}
