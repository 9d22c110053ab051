package runner

import "strings"

// trie finds, at any place of a text, the longest of many words that stands
// there. A run may learn thousands of secrets, each while others are being
// masked, so adding a word costs its length, whatever is there already.
type trie struct {
	nodes []trieNode // nodes[0] is the root, once there is a word
	roots [256]int32 // children of the root, by byte; 0 is none
}

// trieNode is one byte of one or more words.
type trieNode struct {
	child, sibling int32 // indexes of nodes; 0 is none
	char           byte
	ends           bool // a word ends here
}

// add adds a word, which is not empty.
func (t *trie) add(word string) {
	if len(t.nodes) == 0 {
		t.nodes = append(t.nodes, trieNode{})
	}
	at := t.roots[word[0]]
	if at == 0 {
		at = t.grow(trieNode{char: word[0]})
		t.roots[word[0]] = at
	}
	for i := 1; i < len(word); i++ {
		next := t.child(at, word[i])
		if next == 0 {
			next = t.grow(trieNode{char: word[i], sibling: t.nodes[at].child})
			t.nodes[at].child = next
		}
		at = next
	}
	t.nodes[at].ends = true
}

func (t *trie) grow(n trieNode) int32 {
	t.nodes = append(t.nodes, n)
	return int32(len(t.nodes) - 1)
}

func (t *trie) child(at int32, char byte) int32 {
	for c := t.nodes[at].child; c != 0; c = t.nodes[c].sibling {
		if t.nodes[c].char == char {
			return c
		}
	}
	return 0
}

// longest is the length of the longest word that text begins with, 0 for none.
func (t *trie) longest(text string) int {
	length := 0
	at := t.roots[text[0]]
	for i := 1; at != 0; i++ {
		if t.nodes[at].ends {
			length = i
		}
		if i == len(text) {
			break
		}
		at = t.child(at, text[i])
	}
	return length
}

// replace puts a text in the place of each word, from the left, the longest
// word first where several stand.
func (t *trie) replace(text, by string) string {
	if len(t.nodes) == 0 {
		return text
	}
	var b strings.Builder
	kept := 0
	for i := 0; i < len(text); {
		n := t.longest(text[i:])
		if n == 0 {
			i++
			continue
		}
		b.WriteString(text[kept:i])
		b.WriteString(by)
		i += n
		kept = i
	}
	if kept == 0 {
		return text
	}
	b.WriteString(text[kept:])
	return b.String()
}
