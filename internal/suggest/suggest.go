// Package suggest finds the known word that a misspelt one was probably meant to
// be, for the "did you mean" of an error.
package suggest

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Closest returns the known word that somebody who wrote word most likely
// meant, "" when none comes close. Case, dashes and underscores count little.
// A word of one letter is like no other.
func Closest(word string, known []string) string {
	const longest = 64 // what is longer is no misspelt name
	if word == "" || len(word) > longest {
		return ""
	}
	best, least := "", 1+max(1, len(word)/3)
	meant := plain(word)
	for _, k := range known {
		if k == word || len(k) > longest {
			continue
		}
		p := plain(k)
		if abs(len(p)-len(meant)) > 4*least { // bytes, of which a letter has up to four
			continue
		}
		d := distance(meant, p)
		if d > 0 && min(utf8.RuneCountInString(meant), utf8.RuneCountInString(p)) < 2 {
			continue
		}
		if d < least || d == least && best != "" && k < best {
			best, least = k, d
		}
	}
	return best
}

func plain(word string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == ' ' {
			return -1
		}
		return unicode.ToLower(r)
	}, word)
}

// distance counts the letters to insert, remove, replace or swap with their
// neighbour to get from a to b.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, last, now := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		now[0] = i
		for j := 1; j <= len(y); j++ {
			change := 1
			if x[i-1] == y[j-1] {
				change = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(y)]
}

func abs(n int) int { return max(n, -n) }
