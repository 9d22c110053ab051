package definition

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/pipeline/promotion/window"
)

// The bounds of a definition. Those of names, in bytes, let every target that is made of
// them enter the log.
const (
	maxStages      = 1000
	maxPipeline    = 100
	maxName        = 200
	maxEnvironment = 100
	maxVariable    = 100
	maxPath        = 1000
	maxReason      = 1000
	maxWindows     = 100 // of a stage
	maxTime        = Duration(30 * 24 * time.Hour)
	maxSettle      = Duration(10 * time.Minute)
)

// DefaultVariable is the variable that has the revision where nothing else is said.
const DefaultVariable = "pipeline_revision"

// DefaultRetryAfter is how long a promotion rests after its first failure.
const DefaultRetryAfter = Duration(10 * time.Second)

var (
	validPipeline = pattern.Lazy(`^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?$`)
	validName     = pattern.Lazy(`^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?(/[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?)*$`)
	validVariable = pattern.Lazy(`^task\.vars\.([a-zA-Z_][a-zA-Z0-9_]*)$`)
)

const nameRule = "letters, digits, ., _ and - are possible, with a letter or digit at both ends"

// Promotes reports whether a definition is one of this package: a file that has promotion,
// with more than the policy concurrent, or with stages that are environments and nothing
// else. Another one that has it is of a pipeline whose revisions are released, where the
// policy says what is so anyway.
func Promotes(data []byte) bool {
	var ignored yamlfile.Report
	root, ok := yamlfile.Open("", data, yamlfile.Format{}, &ignored)
	if !ok || root == nil {
		return false
	}
	promotion := root.Child("promotion")
	if promotion == nil {
		return false
	}
	for _, m := range promotion.Members {
		if m.Name != "policy" || m.Value != string(Concurrent) {
			return true
		}
	}
	stages := root.Child("stages")
	return len(promotion.Members) > 0 && stages != nil && len(stages.Members) > 0 && !slices.ContainsFunc(stages.Members, func(s *yamlfile.Node) bool {
		return slices.ContainsFunc(s.Members, func(m *yamlfile.Node) bool { return !slices.Contains(stageFields, m.Name) })
	})
}

var stageFields = slices.Concat([]string{"name", "environment", "source", "settle_for", "soak", "keep_until", "manual", "approvals", "expires", "windows", "freezes", "strategy", "verify", "verify_timeout", "webhook", "pull_request"}, []string{"objects"}, targetsFields)

// Parse reads a definition; name is what its messages call the file. It fails with a
// *yamlfile.Error that holds every problem of the file.
func Parse(name string, data []byte) (*Definition, error) {
	p := &parser{}
	err := yamlfile.Read(name, data, "a definition needs the name of a pipeline, a list stages, and promotion", p.read)
	if err != nil {
		return nil, err
	}
	return &p.definition, nil
}

type parser struct {
	definition Definition
	names      map[string]*yamlfile.Node // of stages
	taken      map[string]*yamlfile.Node // environments
}

// released are the keys of definitions whose revisions are released.
var released = map[string]string{
	"batches": "batches are for pipelines whose revisions are released", "supersede": "a newer revision always takes the place of an older one here",
	"stop_on_failure": "a revision that fails in a stage never goes on here",
}

func (p *parser) read(root *yamlfile.Node) {
	for key, why := range released {
		if n := root.Child(key); n != nil {
			n.FailName("a pipeline with promotion has no %s: %s", key, why)
		}
	}
	fields, ok := root.Fields("a definition", "pipeline", "stages", "promotion", "batches", "supersede", "stop_on_failure")
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
	p.promotion(root, fields["promotion"])
	n := fields["stages"]
	if n == nil {
		root.Fail("there are no stages; a pipeline needs a list stages")
		return
	}
	p.names, p.taken = map[string]*yamlfile.Node{}, map[string]*yamlfile.Node{}
	for _, n := range n.List("stages", maxStages) {
		p.stage(n)
	}
	if n.Kind == yamlfile.List && len(n.Members) < 2 {
		n.Fail("a revision is promoted from one stage to another: there must be two at least")
	}
	if last := len(p.definition.Stages) - 1; last > 0 && p.definition.Stages[last].KeepUntil != "" && len(n.Members) == last+1 {
		n.Members[last].Fail("keep_until has no meaning at the last stage: no stage comes after it")
	}
	data, err := json.Marshal(&p.definition)
	if most := deploylog.MaxData / 2; err == nil && len(data) > most {
		root.Fail("the definition has %d bytes as JSON; at most %d fit into the deployment log", len(data), most)
	}
}

func (p *parser) promotion(root, n *yamlfile.Node) {
	to := &p.definition.Promotion
	to.Variable, to.RetryAfter = DefaultVariable, DefaultRetryAfter
	if n == nil {
		root.Fail("there is no promotion, which says how a revision comes from stage to stage")
		return
	}
	fields, ok := n.Fields("promotion", "policy", "revision", "settle_for", "retry_after")
	if !ok {
		return
	}
	to.Policy = Single
	if at := fields["policy"]; at != nil {
		policies := []string{string(Single), string(Concurrent)}
		if text, ok := at.Line("single or concurrent", maxName); ok && !slices.Contains(policies, text) {
			at.FailLike(text, policies, "there is no policy %.60q", text)
		} else {
			to.Policy = Policy(text)
		}
	}
	if at := fields["revision"]; at != nil {
		if text, ok := at.Line("a variable such as task.vars.version", maxVariable); ok {
			match := validVariable().FindStringSubmatch(text)
			if match == nil {
				at.Fail("%.60q is no variable of tasks; write task.vars.NAME, such as task.vars.version", text)
			} else {
				to.Variable = match[1]
			}
		}
	}
	if at := fields["settle_for"]; at != nil {
		to.SettleFor, _ = at.Duration(0, maxTime)
	}
	if at := fields["retry_after"]; at != nil {
		to.RetryAfter, _ = at.Duration(Duration(time.Second), maxTime)
	}
}

// elsewhere are the keys of stages of pipelines whose revisions are released.
var elsewhere = []string{"build", "deploy", "run", "approval", "after", "inputs", "stop_on_failure"}

func (p *parser) stage(n *yamlfile.Node) {
	for _, key := range elsewhere {
		if at := n.Child(key); at != nil {
			switch key {
			case "approval":
				at.FailName("a pipeline with promotion has no approval stages; write manual: true at the stage that is to wait")
			case "after":
				at.FailName("a pipeline with promotion goes through its stages in the order of the file")
			default:
				at.FailName("a pipeline with promotion has environments, manifests on hosts and objects in clusters only, not %s: revisions of a pipeline without promotion are released, and go through such stages", key)
			}
		}
	}
	fields, ok := n.Fields("a stage", slices.Concat(stageFields, elsewhere)...)
	s := Stage{}
	if !ok {
		return
	}
	if at := fields["name"]; at == nil {
		n.Fail("the stage has no name")
	} else if text, ok := at.Line("the name of a stage", maxName); ok {
		s.Name = text
		p.unique(at, text)
	}
	switch {
	case fields["manifest"] != nil:
		p.readTargets(n, fields, &s)
	case fields["objects"] != nil:
		p.readObjects(fields, &s)
	default:
		p.readEnvironment(n, fields, &s)
	}
	p.waits(fields, &s)
	if at := fields["source"]; at != nil {
		s.Source = readSource(at)
	}
	p.needsSource(n, fields, &s)
	p.needsStrategy(n, &s)
	p.definition.Stages = append(p.definition.Stages, s)
}

// readEnvironment reads the environment of a stage.
func (p *parser) readEnvironment(n *yamlfile.Node, fields map[string]*yamlfile.Node, s *Stage) {
	for _, key := range targetsFields {
		if at := fields[key]; at != nil {
			at.FailName("is of a stage that is a manifest on hosts, and this one has no manifest")
		}
	}
	if at := fields["environment"]; at == nil {
		n.Fail("the stage has neither an environment, whose revision is promoted, nor a manifest on hosts, nor objects in clusters")
	} else if text, ok := at.Line("the name of an environment", maxEnvironment); ok {
		s.Environment = text
		switch first := p.taken[text]; {
		case !validName().MatchString(text):
			at.Fail("%q cannot be the name of an environment: %s, in parts divided by /", text, nameRule)
		case first != nil:
			at.Fail("environment %q is already that of another stage, at %d:%d: it cannot run two revisions", text, first.Position.Line, first.Position.Column)
		default:
			p.taken[text] = at
		}
	}
}

func (p *parser) unique(n *yamlfile.Node, name string) {
	first := p.names[name]
	switch {
	case !validName().MatchString(name):
		n.Fail("%q cannot be the name of a stage: %s, in parts divided by /", name, nameRule)
	case strings.HasPrefix(name, p.definition.Name+"/"):
		n.Fail("the name of the pipeline before that of a stage makes no difference; leave it out")
	case first != nil:
		n.Fail("duplicate stage %q, first at %d:%d", name, first.Position.Line, first.Position.Column)
	default:
		p.names[name] = n
	}
}

// waits reads what a revision waits for at a stage.
func (p *parser) waits(fields map[string]*yamlfile.Node, s *Stage) {
	first := len(p.definition.Stages) == 0
	p.readStrategy(fields, s)
	if at := fields["verify"]; at != nil {
		s.Verify = readManifest(at)
	}
	if at := fields["verify_timeout"]; at != nil {
		if s.Verify == "" {
			at.FailName("is of what verifies the stage: write verify, too")
		}
		s.VerifyTimeout, _ = at.Duration(Duration(time.Second), maxTime)
	}
	if at := fields["settle_for"]; at != nil {
		if len(s.Objects) == 0 {
			at.FailName("is of a stage of objects in clusters; how long the first stage must have run a revision is promotion.settle_for")
		}
		settle, _ := at.Duration(0, maxSettle)
		s.SettleFor = &settle
	}
	if at := fields["soak"]; at != nil {
		s.Soak, _ = at.Duration(0, maxTime)
		if first && s.Soak > 0 {
			at.FailName("how long the first stage must have run a revision is promotion.settle_for")
		}
	}
	if at := fields["keep_until"]; at != nil {
		values := []string{string(UntilSoaked), string(UntilVerified), string(UntilPromoted)}
		switch text, ok := at.Line("soaked, verified or promoted", maxName); {
		case ok && !slices.Contains(values, text):
			at.FailLike(text, values, "there is no keep_until %.60q", text)
		case p.definition.Promotion.Policy == Single:
			at.FailName("with the policy single only the current revision goes on, so no stage keeps an older one: write policy: concurrent below promotion, or leave it out")
		default:
			s.KeepUntil = KeepUntil(text)
		}
	}
	for _, key := range []string{"keep_until", "manual", "approvals", "expires", "windows", "freezes", "webhook", "pull_request"} {
		if at := fields[key]; at != nil && first {
			at.FailName("nothing is promoted to the first stage: its revision is observed, so %s has no meaning there", key)
		}
	}
	readManual(fields, s)
	s.Calendar = readCalendar(fields)
}

// readCalendar reads when something may come to a stage, nil for always.
func readCalendar(fields map[string]*yamlfile.Node) *window.Calendar {
	var c window.Calendar
	if at := fields["windows"]; at != nil {
		for _, one := range at.List("windows", maxWindows) {
			c.Windows = append(c.Windows, readWindow(one))
		}
		if at.Kind == yamlfile.List && len(at.Members) == 0 {
			at.Fail("without a window nothing would ever be promoted; leave windows out for any time")
		}
	}
	if at := fields["freezes"]; at != nil {
		for _, one := range at.List("freezes", maxWindows) {
			c.Freezes = append(c.Freezes, readFreeze(one))
		}
	}
	if len(c.Windows)+len(c.Freezes) == 0 {
		return nil
	}
	return &c
}

// readStrategy reads how a revision comes to a stage.
func (p *parser) readStrategy(fields map[string]*yamlfile.Node, s *Stage) {
	strategies := []string{string(Deploy), string(WithWebhook), string(WithPullRequest)}
	at, hook, pull := fields["strategy"], fields["webhook"], fields["pull_request"]
	if at != nil {
		if text, ok := at.Line("deploy, webhook or pull-request", maxName); ok && !slices.Contains(strategies, text) {
			at.FailLike(text, strategies, "there is no strategy %.60q", text)
		} else if text != string(Deploy) {
			s.Strategy = Strategy(text)
		}
	}
	switch {
	case s.Strategy == WithWebhook && hook == nil:
		at.Fail("the strategy webhook needs webhook: {url: …, key_file: …}")
	case hook != nil && s.Strategy != WithWebhook:
		hook.FailName("is of the strategy webhook: write strategy: webhook, too")
	case hook != nil:
		s.Webhook = readWebhook(hook)
	}
	switch {
	case s.Strategy == WithPullRequest && pull == nil:
		at.Fail("the strategy pull-request needs pull_request: {repository: …, file: …, value: …, provider: …}")
	case pull != nil && s.Strategy != WithPullRequest:
		pull.FailName("is of the strategy pull-request: write strategy: pull-request, too")
	case pull != nil:
		s.PullRequest = p.readPullRequest(pull, s)
	}
}

// DefaultWebhookTimeout is by when an environment must run what a webhook was asked to bring.
const DefaultWebhookTimeout = Duration(30 * time.Minute)

func readWebhook(n *yamlfile.Node) *Webhook {
	fields, ok := n.Fields("a webhook", "url", "key_file", "timeout")
	if !ok {
		return nil
	}
	w := &Webhook{Timeout: DefaultWebhookTimeout}
	if at := fields["url"]; at == nil {
		n.Fail("it has no url")
	} else if text, ok := at.Line("a URL", maxPath); ok {
		switch u, err := url.Parse(text); {
		case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
			at.Fail("must be a URL, as https://ci.example/promote is")
		case u.User != nil:
			at.Fail("a URL must not hold a password: what is posted is signed")
		}
		w.URL = text
	}
	if at := fields["key_file"]; at == nil {
		n.Fail("it has no key_file: what is promoted is asked for by a signed request only")
	} else {
		w.KeyFile = readSecretPath(at)
	}
	if at := fields["timeout"]; at != nil {
		w.Timeout, _ = at.Duration(Duration(time.Second), maxTime)
	}
	return w
}

// readManifest reads the path of a manifest, relative to the file.
func readManifest(n *yamlfile.Node) string { return readPath(n, "the path of a manifest") }

func readPath(n *yamlfile.Node, what string) string {
	text, ok := n.Line(what, maxPath)
	switch {
	case !ok:
	case strings.HasPrefix(text, "/"):
		n.Fail("must be a path within the workspace, not one that begins with /")
	case strings.Contains(text, `\`):
		n.Fail(`holds a \; the parts of a path are divided by /`)
	}
	return text
}

// readWindow reads {days: [mon], from: "09:00", to: "16:00", zone: Europe/Berlin}.
func readWindow(n *yamlfile.Node) (w window.Window) {
	fields, ok := n.Fields("a window", "days", "from", "to", "zone")
	if !ok {
		return w
	}
	if at := fields["days"]; at != nil {
		for _, one := range at.List("days such as mon", len(window.Days())) {
			day, ok := one.Line("a day such as mon", maxName)
			switch {
			case !ok:
			case !slices.Contains(window.Days(), day):
				one.FailLike(day, window.Days(), "there is no day %.60q", day)
			default:
				w.Days = append(w.Days, window.Day(day))
			}
		}
		if at.Kind == yamlfile.List && len(at.Members) == 0 {
			at.Fail("names no day; leave it out for all of them")
		}
	}
	for key, to := range map[string]*window.Clock{"from": &w.From, "to": &w.To} {
		at := fields[key]
		if at == nil {
			n.Fail("the window has no %s, a time of day such as \"09:00\"", key)
			continue
		}
		if text, ok := at.Line("a time of day in quotes, such as \"09:00\"", maxName); ok {
			*to = window.Clock(text)
			if _, err := to.Minutes(); err != nil {
				at.Fail("%s", err)
			}
		}
	}
	if w.From != "" && w.From == w.To {
		fields["to"].Fail("the window ends when it begins; a whole day is from \"00:00\" to \"24:00\"")
	}
	w.Zone = readZone(n, fields["zone"], "window")
	return w
}

// readZone reads a time zone. There is no default: the machine that decides has another one
// than the people who wrote the file.
func readZone(n, at *yamlfile.Node, what string) string {
	if at == nil {
		n.Fail("the %s has no zone, the time zone of its times: Europe/Berlin, or UTC", what)
		return ""
	}
	text, ok := at.Line("a time zone such as Europe/Berlin", maxName)
	if ok {
		if _, err := window.Zone(text); err != nil {
			at.Fail("%s", err)
		}
	}
	return text
}

// readFreeze reads {from: 2026-12-20, to: 2027-01-07, zone: UTC, reason: holidays}.
func readFreeze(n *yamlfile.Node) (f window.Freeze) {
	fields, ok := n.Fields("a freeze", "from", "to", "zone", "reason")
	if !ok {
		return f
	}
	f.Zone = readZone(n, fields["zone"], "freeze")
	zone, err := window.Zone(f.Zone)
	if err != nil {
		zone = time.UTC
	}
	var ends [2]time.Time
	for i, key := range []string{"from", "to"} {
		at := fields[key]
		if at == nil {
			n.Fail("the freeze has no %s, a date such as 2026-12-20", key)
			continue
		}
		moment := window.Moment(at.Value)
		if ends[i], err = moment.In(zone); err != nil {
			at.Fail("%s", err)
		}
		if i == 0 {
			f.From = moment
		} else {
			f.To = moment
		}
	}
	if !ends[0].IsZero() && !ends[1].IsZero() && !ends[0].Before(ends[1]) {
		fields["to"].Fail("the freeze ends before it begins")
	}
	if at := fields["reason"]; at != nil {
		f.Reason, _ = at.Line("why nothing is promoted", maxReason)
	}
	return f
}
