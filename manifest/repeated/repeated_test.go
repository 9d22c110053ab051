package repeated_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/manifest/repeated"
)

func TestAMistakeOfSeveralInstancesIsSaidOnce(t *testing.T) {
	at := func(line int, path, message string) yamlfile.Problem {
		return yamlfile.Problem{Position: yamlfile.Position{File: "m.yaml", Line: line, Column: 1}, Path: path, Message: message}
	}
	const number = "must be a string, not a number"
	for name, c := range map[string]struct{ given, want []yamlfile.Problem }{
		"none": {nil, nil},
		"two of one resource": {
			[]yamlfile.Problem{at(1, "resources.a.config.x", number), at(1, "resources.a.config.y", number)},
			[]yamlfile.Problem{at(1, "resources.a.config.x", number), at(1, "resources.a.config.y", number)},
		},
		"one of an instance": {[]yamlfile.Problem{at(1, "resources.a[k].config.x", number)}, []yamlfile.Problem{at(1, "resources.a[k].config.x", number)}},
		"one of two instances, and another of one": {
			[]yamlfile.Problem{at(1, "resources.a[k].config.x", number), at(1, "resources.a[k].config.y", number), at(1, "resources.a[l].config.x", number)},
			[]yamlfile.Problem{at(1, "resources.a.config.x", number+" (of 2 instances: a[k], a[l])"), at(1, "resources.a[k].config.y", number)},
		},
		"parts of a list": {
			[]yamlfile.Problem{at(1, "resources.a[k].config.x[0]", number), at(1, "resources.a[k].config.x[1]", number)},
			[]yamlfile.Problem{at(1, "resources.a[k].config.x[0]", number), at(1, "resources.a[k].config.x[1]", number)},
		},
		"different messages": {
			[]yamlfile.Problem{at(1, "resources.a[k].config.x", number), at(1, "resources.a[l].config.x", "is too long")},
			[]yamlfile.Problem{at(1, "resources.a[k].config.x", number), at(1, "resources.a[l].config.x", "is too long")},
		},
		"in instances of a module": {
			[]yamlfile.Problem{at(1, "resources.web[k].page.config.x", number+" (in module web[k], called at m.yaml:3:3)"), at(1, "resources.web[l].page.config.x", number+" (in module web[l], called at m.yaml:3:3)")},
			[]yamlfile.Problem{at(1, "resources.web.page.config.x", number+" (in module web[k], called at m.yaml:3:3) (of 2 instances: web[k].page, web[l].page)")},
		},
		"what is not of resources": {[]yamlfile.Problem{at(1, "plugs.a", "is wrong"), at(1, "plugs.a", "is wrong")}, []yamlfile.Problem{at(1, "plugs.a", "is wrong"), at(1, "plugs.a", "is wrong")}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, repeated.Once(c.given)) })
	}
}
