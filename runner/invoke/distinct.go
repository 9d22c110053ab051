package invoke

import "fmt"

// Distinct names the actions of an answer, each by another name: an event is one of a kind by the name
// of its action, and what is run twice is no second attempt. The second "set" is "set#2".
func Distinct(names []string) []string {
	taken, seen := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		taken[name] = true
	}
	ids := make([]string, len(names))
	for i, name := range names {
		id := name
		for n := 2; seen[name] && taken[id]; n++ {
			id = fmt.Sprintf("%s#%d", name, n)
		}
		ids[i], seen[name], taken[id] = id, true, true
	}
	return ids
}
