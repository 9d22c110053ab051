package query

import "sort"

// Part is up to limit rows after a key of a list that is sorted by it, and whether there are
// more. Who goes on behind the last row of a part misses none and gets none twice, whatever
// was added before it meanwhile.
func Part[T any](list []T, key func(T) string, after string, limit int) (rows []T, more bool) {
	rows = list[sort.Search(len(list), func(i int) bool { return key(list[i]) > after }):]
	if len(rows) > limit {
		return rows[:limit], true
	}
	return rows, false
}
