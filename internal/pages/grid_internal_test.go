package pages

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
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
			if text == nil {
				t.Fatalf("a link is %s", found[0])
			}
			from, _ = strconv.Atoi(text[1])
		case "/a":
			from = -1
		case "i":
			if want := fmt.Sprintf(` class="cell c" title="h%d: current"`, seen); found[2] != want {
				t.Fatalf("cell %d is %s", seen, found[2])
			}
			if from < 0 || from > seen || seen >= from+mostHosts {
				t.Fatalf("cell %d leads to the hosts from %d", seen, from)
			}
			seen++
		}
	}
	if seen != hosts {
		t.Errorf("%d cells are of %d hosts", seen, hosts)
	}
	if text := string(g.html()); strings.Count(text, `<div class="chunk">`) != 2 {
		t.Errorf("%d cells are not in two chunks", hosts)
	}
}

// The names of hosts are of others.
func TestNamesInTheGridAreEscaped(t *testing.T) {
	g := grid{}
	g.add(`"><script>alert(1)</script>`+"\x1b[31m\n", hostState{Code: 'f', Name: "failed"})
	if text := string(g.html()); strings.Contains(text, "<script>") || strings.Contains(text, `""`) || strings.ContainsAny(text, "\x1b") || strings.Count(text, "title=") != 1 {
		t.Errorf("the grid is %q", text)
	}
}

// Where nothing is, there is no link to it.
func TestAGridOfNoHostsIsEmpty(t *testing.T) {
	if text := (&grid{}).html(); text != "" {
		t.Errorf("it is %q", text)
	}
}
