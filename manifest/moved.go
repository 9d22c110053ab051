package manifest

import (
	"errors"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/graph"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/manifest/address"
)

const movedKey = "moved"

// Move says that what was made as one resource is that of another name from now on. A name without
// a key moves all instances with it, and that of a module all that is in it.
type Move struct {
	Manifest string // that made it, by its name or its file; "" is this one
	From, To string
	Position Position
}

// moves reads the section moved.
func (l *loader) moves(n *yamlfile.Node) {
	if n == nil || n.Kind == yamlfile.Nothing {
		return
	}
	if n.Kind != yamlfile.List {
		n.Fail("must be a list of moves, such as [{from: a, to: b}], not %s", KindOf(n))
		return
	}
	for _, m := range n.Members {
		fields, ok := m.Fields("a move", "from", "to")
		if !ok {
			continue
		}
		move := Move{Position: m.Position}
		move.Manifest, move.From = readFrom(m, fields["from"])
		move.To = readAddress(m, fields["to"], "to")
		switch {
		case move.From == "" || move.To == "":
		case move.Manifest != "" && l.module != nil:
			m.Fail("what another manifest made is moved in the manifest itself, not in a module")
		case move.Manifest != "":
			l.manifest.Takes = append(l.manifest.Takes, move)
		default:
			move.From, move.To = l.address(move.From), l.address(move.To)
			l.manifest.Moved = append(l.manifest.Moved, move)
		}
	}
}

// readFrom reads what is moved: the name of a resource, behind that of a manifest and a # where it is another's.
func readFrom(move, n *yamlfile.Node) (manifest, from string) {
	if n != nil && n.Kind == yamlfile.Text {
		if i := strings.LastIndexByte(n.Value, '#'); i >= 0 {
			manifest, from = n.Value[:i], n.Value[i+1:]
			if manifest == "" || !address.Valid(from) {
				n.Fail("%q is not a resource of another manifest, such as web.yaml#pages or web.yaml#pages[a]", n.Value)
				return "", ""
			}
			return manifest, from
		}
	}
	return "", readAddress(move, n, "from")
}

// readAddress reads one of the names of a move.
func readAddress(move, n *yamlfile.Node, key string) string {
	if n == nil {
		move.Fail("the move has no %s; write {from: a, to: b}", key)
		return ""
	}
	text, ok := readText(n, "the name of a resource")
	if ok && !address.Valid(text) {
		n.Fail("%q is not the name of a resource, such as pages, pages[a] or web.pages[a]", text)
		return ""
	}
	return text
}

// checkMoves finds moves that contradict each other or what is declared. It is called when all
// resources are known.
func (l *loader) checkMoves() {
	from, to := map[string]Move{}, map[string]Move{}
	fail := func(m Move, message string) {
		l.found.Add(Problem{Position: m.Position, Path: movedKey, Message: message})
	}
	g := graph.New[string]()
	for _, m := range l.manifest.Moved {
		switch {
		case m.From == m.To:
			fail(m, m.From+" is moved to itself")
		case from[m.From].From != "":
			fail(m, m.From+" is moved twice, also at "+from[m.From].Position.String())
		case to[m.To].To != "":
			fail(m, "two resources are moved to "+m.To+", the other one at "+to[m.To].Position.String())
		case l.stillDeclared(m):
			fail(m, m.From+" is still declared, so it is not moved; remove it, or the move")
		default:
			from[m.From], to[m.To] = m, m
			g.Add(m.From, m.To)
		}
	}
	var cycle *graph.CycleError[string]
	if _, err := g.Sort(); errors.As(err, &cycle) {
		fail(from[cycle.Path[0]], "moves go in a circle: "+strings.Join(cycle.Path, " → "))
	}
	for _, m := range l.manifest.Takes {
		switch {
		case to[m.To].To != "":
			fail(m, "two resources are moved to "+m.To+", the other one at "+to[m.To].Position.String())
		case !l.hasName(m.To):
			l.found.Add(Problem{
				Position: m.Position, Path: movedKey, Message: "there is no resource " + m.To + " to move to", Hint: l.found.Closest(m.To, l.names()),
			})
		default:
			to[m.To] = m
		}
	}
	for _, m := range l.manifest.Moved {
		if _, on := from[m.To]; from[m.From] == m && !on && !l.hasName(m.To) {
			l.found.Add(Problem{
				Position: m.Position, Path: movedKey, Message: "there is no resource " + m.To + " to move to", Hint: l.found.Closest(m.To, l.names()),
			})
		}
	}
}

// stillDeclared reports whether a resource that is to be moved is declared. A late one declares instances,
// and nothing by its own name.
func (l *loader) stillDeclared(m Move) bool {
	return slices.ContainsFunc(l.manifest.Resources, func(r *Resource) bool {
		name := r.Name
		if r.Late != nil {
			name = address.Instance(name, "key")
		}
		_, moved := m.renamed(name)
		return moved
	})
}

// hasName reports whether something is declared by a name: what is in a module is for that to say,
// and an instance that there is not, or a resource that is off, may be there again.
func (l *loader) hasName(name string) bool {
	first, within := address.First(name)
	of, _, _ := address.Written(first)
	return within != "" || l.declared[of] != nil
}

// renamed is the new name of what a move moves.
func (m Move) renamed(name string) (now string, moved bool) {
	rest, found := strings.CutPrefix(name, m.From)
	switch {
	case !found:
		return name, false
	case rest == "", rest[0] == '.', rest[0] == '[' && !strings.HasSuffix(m.From, "]") && !strings.HasSuffix(m.To, "]"):
		return m.To + rest, true
	default:
		return name, false
	}
}

// Moving is the move that gives a resource another name, by the one that it had; nil is none.
func (m *Manifest) Moving(name string) *Move {
	for i := range m.Moved {
		if _, moved := m.Moved[i].renamed(name); moved {
			return &m.Moved[i]
		}
	}
	return nil
}

// Renamed is the name of a resource by one that it had: itself, where nothing moved it.
func (m *Manifest) Renamed(name string) string {
	for range len(m.Moved) + 1 { // through several moves, which form no circle
		move := m.Moving(name)
		if move == nil {
			break
		}
		name, _ = move.renamed(name)
	}
	return name
}

// Taking returns the move by which a resource becomes what another manifest made under the name from. manifest is ""
// if there is none.
func (m *Manifest) Taking(name string) (manifest, from string) {
	for _, move := range m.Takes {
		back := Move{From: move.To, To: move.From}
		if from, moved := back.renamed(name); moved {
			return move.Manifest, from
		}
	}
	return "", ""
}

// Moves reports whether the move is about a resource, by the name that it had.
func (m Move) Moves(name string) bool {
	_, moved := m.renamed(name)
	return moved
}
