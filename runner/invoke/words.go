package invoke

import "strings"

// words finds all occurrences of many words in a text, in time that grows with
// the text alone: by Aho and Corasick's automata. The libraries there are
// (BobuSumisu's, petar-dambovaliev's, cloudflare's) make an automaton from all
// words at once, while a run learns thousands, each while others are being
// masked; making one anew each time would cost their square. Words are therefore
// kept in several automata, of which each holds at least twice as much as the
// next, as in a logarithmic method of Bentley and Saxe: a word is taken into
// another automaton as often as the sizes double.
type words struct {
	known map[string]bool
	parts []*automaton
	reach int // length of the longest
}

// add adds a word, which is not empty. Tabs and line breaks are the same to it as spaces,
// as a terminal may show them so.
func (w *words) add(word string) {
	word = strings.NewReplacer("\t", " ", "\n", " ").Replace(word)
	if w.known[word] {
		return
	}
	if w.known == nil {
		w.known = map[string]bool{}
	}
	w.known[word] = true
	w.reach = max(w.reach, len(word))
	list, size := []string{word}, len(word)
	for n := len(w.parts); n > 0 && w.parts[n-1].size < 2*size; n-- {
		list, size = append(list, w.parts[n-1].words...), size+w.parts[n-1].size
		w.parts = w.parts[:n-1]
	}
	w.parts = append(w.parts, newAutomaton(list, size))
}

// find calls found for the end of each occurrence, with the longest word that
// ends there. It returns where a word may begin that goes on after the text, the first
// of those, or the length of the text.
func (w *words) find(text []byte, found func(start, end int)) (begun int) {
	begun = len(text)
	for _, part := range w.parts {
		_, depth := part.find(text, found)
		begun = min(begun, len(text)-depth)
	}
	return begun
}

// blank returns what a byte is looked for as.
func blank(char byte) byte {
	if char == '\t' || char == '\n' {
		return ' '
	}
	return char
}

// automaton is a tree of words by their first bytes, whose nodes know where to
// go on when the text goes on otherwise.
type automaton struct {
	words []string
	size  int // of the words together
	nodes []node
	roots [256]int32 // children of the root, by byte; 0 is none
}

// node is one byte of one or more words.
type node struct {
	child, sibling int32 // indexes of nodes; 0 is none
	suffix         int32 // where the longest other beginning of a word stands that ends here
	longest        int32 // length of the longest word that ends here, 0 for none
	depth          int32 // length of what leads here
	char           byte
}

func newAutomaton(list []string, size int) *automaton {
	a := &automaton{words: list, size: size, nodes: make([]node, 1, size+1)}
	for _, word := range list {
		at := int32(0)
		for i := range len(word) {
			next := a.child(at, word[i])
			if next == 0 {
				next = int32(len(a.nodes))
				n := node{char: word[i], depth: int32(i + 1)}
				if at == 0 {
					a.roots[word[i]] = next
				} else {
					n.sibling, a.nodes[at].child = a.nodes[at].child, next
				}
				a.nodes = append(a.nodes, n)
			}
			at = next
		}
		a.nodes[at].longest = int32(len(word))
	}
	a.link()
	a.roots['\t'], a.roots['\n'] = a.roots[' '], a.roots[' ']
	return a
}

// link finds the suffix of each node, the shorter ones first.
func (a *automaton) link() {
	var queue []int32
	for _, root := range a.roots {
		if root != 0 {
			queue = append(queue, root)
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for c := a.nodes[at].child; c != 0; c = a.nodes[c].sibling {
			suffix, _ := a.step(a.nodes[at].suffix, a.nodes[c].char)
			a.nodes[c].suffix = suffix
			if a.nodes[c].longest == 0 {
				a.nodes[c].longest = a.nodes[suffix].longest
			}
			queue = append(queue, c)
		}
	}
}

func (a *automaton) child(at int32, char byte) int32 {
	if at == 0 {
		return a.roots[char]
	}
	for c := a.nodes[at].child; c != 0; c = a.nodes[c].sibling {
		if a.nodes[c].char == char {
			return c
		}
	}
	return 0
}

// step goes on from a node by a byte, and counts the nodes it visits.
func (a *automaton) step(at int32, char byte) (next int32, looks int) {
	for {
		looks++
		if next = a.child(at, char); next != 0 || at == 0 {
			return next, looks
		}
		at = a.nodes[at].suffix
	}
}

// find is words.find for these words. It returns how many nodes it looked at,
// which is at most two for each byte of the text, and how much of the end of the text a
// word begins with.
func (a *automaton) find(text []byte, found func(start, end int)) (looks, begun int) {
	at, n := int32(0), 0
	for i, char := range text {
		if at == 0 && a.roots[char] == 0 { // the most common case by far
			looks++
			continue
		}
		at, n = a.step(at, blank(char))
		looks += n
		if length := int(a.nodes[at].longest); length > 0 {
			found(i+1-length, i+1)
		}
	}
	return looks, int(a.nodes[at].depth)
}
