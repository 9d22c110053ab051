package shipped

import (
	"fmt"
	"strings"
)

func unknownType(name string) error {
	hint := ""
	if near := nearest(name, Names()); near != "" {
		hint = fmt.Sprintf("; did you mean %s%s?", prefix, near)
	}
	return fmt.Errorf("%s%s is not a resource type that ships with Deployster%s (there are %s; an image of that name in a registry needs a tag)",
		prefix, name, hint, strings.Join(Names(), ", "))
}

// nearest is the candidate that a slip of the pen may have meant, "" when none
// is near.
func nearest(word string, candidates []string) string {
	best, least := "", 3
	for _, c := range candidates {
		if strings.HasPrefix(word, c) || len(word) > 2 && strings.HasPrefix(c, word) { // files, net
			return c
		}
		if d := distance(word, c); d < least {
			best, least = c, d
		}
	}
	return best
}

// distance is how many characters must be inserted, deleted or changed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
