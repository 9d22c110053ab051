package definition

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/graph"
	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// Parse reads a definition; name is what its messages call the file. It fails
// with a *yamlfile.Error that holds every problem of the file.
//
// query checks a query over the inventory. An error that has a method
// Place() (column int, problem string) is reported at its place.
func Parse(name string, data []byte, query func(string) error) (*Definition, error) {
	p := &parser{query: query, taken: map[string]*yamlfile.Node{}, kinds: map[string]*yamlfile.Node{}, index: map[string]int{}}
	err := yamlfile.Read(name, data, "a definition needs the name of a pipeline and a list stages", func(root *yamlfile.Node) {
		p.read(root)
		p.checkSize(root)
	})
	if err != nil {
		return nil, err
	}
	return &p.definition, nil
}

type parser struct {
	stopOnFailure *bool // of stages that do not say it; nil is not given
	query         func(string) error
	definition    Definition
	named         []*yamlfile.Node          // for each stage, where its name is, or else the stage
	after         []*yamlfile.Node          // for each stage, nil is not given
	taken         map[string]*yamlfile.Node // stages and host groups
	kinds         map[string]*yamlfile.Node // of artifacts
	index         map[string]int            // of stages, by name
	names         []string                  // of stages, sorted
}

func (p *parser) read(root *yamlfile.Node) {
	fields, ok := root.Fields("a definition", "pipeline", "stages", "batches", "promotion", "supersede", "stop_on_failure", "allow")
	if !ok {
		return
	}
	if n := fields["pipeline"]; n == nil {
		root.Fail("there is no pipeline, the name of what is defined")
	} else if text, ok := n.Line("the name of the pipeline", maxPipeline); ok {
		if !validPipeline().MatchString(text) {
			n.Fail("%q cannot be the name of a pipeline: %s", text, nameRule)
		}
		p.definition.Name = text
	}
	if n := fields["promotion"]; n != nil {
		readPromotion(n)
	}
	if n := fields["supersede"]; n != nil {
		p.definition.Supersede = readBool(n)
	}
	if n := fields["stop_on_failure"]; n != nil {
		stops := readBool(n)
		p.stopOnFailure = &stops
	}
	if n := fields["allow"]; n != nil {
		p.definition.Allow, _ = allow.Read(n, p.query)
	}
	n := fields["stages"]
	if n == nil {
		root.Fail("there are no stages; a pipeline needs a list stages")
		return
	}
	stages := n.List("stages", maxStages)
	if n.Kind == yamlfile.List && len(n.Members) == 0 {
		n.Fail("a pipeline needs a stage at least")
	}
	for _, n := range stages {
		p.stage(n)
	}
	p.names = slices.Sorted(maps.Keys(p.index))
	order, ancestors := p.order()
	p.checkWhen()
	if n := fields["batches"]; n != nil {
		p.batches(n, ancestors)
	}
	sorted := make([]Stage, len(order))
	for to, from := range order {
		sorted[to] = p.definition.Stages[from]
	}
	p.definition.Stages = sorted
}

// fits looks whether the definition will enter the log, in whose event it is
// not alone.
func (p *parser) checkSize(root *yamlfile.Node) {
	const most = deploylog.MaxData / 2
	data, err := json.Marshal(&p.definition)
	switch {
	case err != nil:
		root.Fail("the definition cannot be written as JSON: %s", err)
	case len(data) > most:
		root.Fail("the definition has %d bytes as JSON; at most %d fit into the deployment log", len(data), most)
	}
}

func readPromotion(n *yamlfile.Node) {
	fields, ok := n.Fields("promotion", "policy")
	if !ok || fields["policy"] == nil {
		return
	}
	policies := []string{"concurrent", "single"}
	switch text, ok := fields["policy"].Line("concurrent or single", maxName); {
	case !ok || text == "concurrent":
	case text == "single":
		fields["policy"].Fail("the policy single is for a pipeline whose stages are environments, and which releases nothing")
	default:
		fields["policy"].FailLike(text, policies, "there is no policy %.60q", text)
	}
}

// order connects the stages. It returns their indexes, each after those it
// comes after, and for each stage the set of all before it; nothing if there is
// a circle.
func (p *parser) order() (order []int, before []big.Int) {
	stages := p.definition.Stages
	g := graph.New[int]()
	for i := range stages {
		g.Add(i)
	}
	edges := make([][]int, len(stages))
	for i := range stages {
		stages[i].After = []string{}
		switch n := p.after[i]; {
		case n != nil:
			edges[i] = p.comesAfter(n)
		case i > 0:
			edges[i] = []int{i - 1}
		}
		for _, j := range edges[i] {
			stages[i].After = append(stages[i].After, stages[j].Name)
		}
		g.Add(i, edges[i]...)
	}
	order, err := g.Sort()
	var cycle *graph.CycleError[int]
	if errors.As(err, &cycle) {
		names := make([]string, len(cycle.Path))
		for i, s := range cycle.Path {
			names[i] = cmp.Or(stages[s].Name, p.named[s].Path())
		}
		at := p.named[cycle.Path[0]]
		if n := p.after[cycle.Path[0]]; n != nil {
			at = n
		}
		at.Fail("the stages come after each other in a circle: %s", strings.Join(names, " after "))
		return nil, nil
	}
	before = make([]big.Int, len(stages))
	for _, i := range order {
		for _, j := range edges[i] {
			before[i].Or(&before[i], &before[j])
			before[i].SetBit(&before[i], j, 1)
		}
	}
	return order, before
}

// comesAfter reads the names of stages that one comes after.
func (p *parser) comesAfter(n *yamlfile.Node) []int {
	var stages []int
	for _, one := range n.List("names of stages ([] for a first stage)", maxStages) {
		i, ok := p.known(one)
		switch {
		case !ok:
		case slices.Contains(stages, i):
			one.Fail("duplicate stage %q", one.Value)
		default:
			stages = append(stages, i)
		}
	}
	return stages
}

// known reads the name of a stage that there is.
func (p *parser) known(n *yamlfile.Node) (index int, ok bool) {
	name, ok := n.Line("the name of a stage", maxName)
	if !ok {
		return 0, false
	}
	if index, ok = p.index[name]; !ok {
		n.FailLike(name, p.names, "there is no stage %.60q", name)
	}
	return index, ok
}

// batches reads the batches. Without a set of what is before each stage, their
// order is not checked.
func (p *parser) batches(n *yamlfile.Node, before []big.Int) {
	for _, one := range n.List("batches", maxBatches) {
		fields, ok := one.Fields("a batch", "from", "to")
		if !ok {
			continue
		}
		var ends [2]int
		both := true
		for i, key := range []string{"from", "to"} {
			if fields[key] == nil {
				one.Fail("the batch has no %s, the name of a stage", key)
				both = false
			} else if ends[i], ok = p.known(fields[key]); !ok {
				both = false
			}
		}
		if !both {
			continue
		}
		from, to := ends[0], ends[1]
		b := Batch{From: p.definition.Stages[from].Name, To: p.definition.Stages[to].Name}
		for i, key := range []string{"from", "to"} {
			if p.definition.Stages[ends[i]].Closing() {
				fields[key].Fail("the stage %q has when, and belongs to no batch", fields[key].Value)
			}
		}
		if before != nil && from != to && before[to].Bit(from) == 0 {
			fields["to"].Fail("the stage %q does not come after %q, where the batch begins", b.To, b.From)
		}
		p.definition.Batches = append(p.definition.Batches, b)
	}
}
