package forgetest

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Pull is a pull request as a test sees it.
type Pull struct {
	Number       int
	Title, Body  string
	Branch, Base string
	State        string // open, merged or closed
}

// Pulls are all pull requests.
func (f *Forge) Pulls() (all []Pull) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pulls {
		all = append(all, Pull{p.number, p.title, p.body, p.branch, p.base, p.state})
	}
	return all
}

// Served is how many answers of the API had contents.
func (f *Forge) Served() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.served
}

// Retitle is that somebody gives a pull request another title.
func (f *Forge) Retitle(number int, title string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pulls[number-1].title = title
}

// Rewrite is that somebody gives a pull request another text.
func (f *Forge) Rewrite(number int, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pulls[number-1].body = body
}

// messages are those of the commits of a pull request; of one that is closed, as they were then.
func (f *Forge) messages(p *pull) []string {
	if p.state == "open" && f.Head(p.branch) != "" {
		p.commits = strings.Split(f.git(f.bare(), "log", "--format=%B%x00", p.base+".."+p.branch), "\x00")
	}
	return p.commits
}

func (f *Forge) committed(w http.ResponseWriter, number int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := []any{}
	for _, message := range f.messages(f.pulls[number-1]) {
		commit := map[string]any{"message": message}
		if f.Kind == "github" || f.Kind == "gitea" {
			commit = map[string]any{"commit": commit}
		}
		all = append(all, commit)
	}
	if f.Kind == "bitbucket" {
		answer(w, http.StatusOK, map[string]any{"values": all})
		return
	}
	answer(w, http.StatusOK, all)
}

// Decline closes a pull request without merging it.
func (f *Forge) Decline(number int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.messages(f.pulls[number-1])
	f.pulls[number-1].state = "closed"
}

// Fork is that somebody has a pull request from a branch of that name of another repository.
func (f *Forge) Fork(branch, base, body, state string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pulls = append(f.pulls, &pull{number: len(f.pulls) + 1, title: "mine", body: body, branch: branch, base: base, state: state, fork: true})
}

// Merge merges a pull request.
func (f *Forge) Merge(number int) {
	f.Helper()
	f.mu.Lock()
	p := f.pulls[number-1]
	f.messages(p)
	p.state, p.merged = "merged", opened(p)
	f.mu.Unlock()
	f.git(f.bare(), "update-ref", "refs/heads/"+p.base, f.Head(p.branch))
}

// Lag merges a pull request at some time, and shows that before its base branch has it: Merge
// then ends that.
func (f *Forge) Lag(number int, when time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pulls[number-1]
	f.messages(p)
	p.state, p.merged = "merged", when
}

// opened is when a pull request was opened.
func opened(p *pull) time.Time { return time.Date(2026, 11, 22, 12, p.number, 0, 0, time.UTC) }

func (f *Forge) api(w http.ResponseWriter, r *http.Request) {
	if scheme := map[bool]string{true: "token ", false: "Bearer "}[f.Kind == "gitea"]; r.Header.Get("Authorization") != scheme+Token {
		answer(w, http.StatusUnauthorized, map[string]string{"message": "who has " + r.Header.Get("Authorization") + "?"})
		return
	}
	list := map[string]string{
		"github": "/api/v3/repos/acme/deploy/pulls", "gitea": "/api/v1/repos/acme/deploy/pulls",
		"gitlab": "/api/v4/projects/acme/deploy/merge_requests", "bitbucket": "/2.0/repositories/acme/deploy/pullrequests",
	}[f.Kind]
	rest, ok := strings.CutPrefix(r.URL.Path, list)
	if !ok {
		answer(w, http.StatusNotFound, map[string]string{"message": "no " + r.URL.Path})
		return
	}
	var in map[string]any
	data, _ := io.ReadAll(r.Body)
	if len(data) > 0 {
		if err := json.Unmarshal(data, &in); err != nil {
			f.Errorf("%s %s is no JSON: %s", r.Method, r.URL, data)
		}
	}
	number, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSuffix(strings.Trim(rest, "/"), "/decline"), "/commits"))
	switch {
	case r.Method == http.MethodGet && strings.HasSuffix(rest, "/commits") && number > 0 && number <= len(f.Pulls()):
		f.committed(w, number)
	case r.Method == http.MethodGet && rest == "":
		f.listed(w, r)
	case r.Method == http.MethodPost && rest == "":
		f.open(w, in)
	case number > 0 && number <= len(f.Pulls()):
		f.edit(w, r, in, number)
	default:
		answer(w, http.StatusNotFound, map[string]string{"message": "no " + r.URL.Path})
	}
}

func answer(w http.ResponseWriter, status int, of any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(of)
}

// listed lists as the provider does: only what its parameters ask for, a page at a time.
func (f *Forge) listed(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := r.URL.Query()
	all := []any{}
	for _, p := range slices.Backward(f.pulls) {
		if f.asksFor(q, p) {
			all = append(all, f.form(p))
		}
	}
	size, _ := strconv.Atoi(q.Get("per_page") + q.Get("limit") + q.Get("pagelen"))
	if size == 0 {
		f.Errorf("%s asks for no size of pages", r.URL)
		size = 30
	}
	if f.PageSize > 0 {
		size = min(size, f.PageSize)
	}
	page, _ := strconv.Atoi(q.Get("page"))
	page = max(page, 1)
	total := len(all)
	first := min(total, size*(page-1))
	all = all[first:min(total, first+size)]
	var of any = all
	next := *r.URL
	q.Set("page", strconv.Itoa(page+1))
	next.RawQuery = q.Encode()
	switch more := first+size < total; {
	case f.Kind == "bitbucket" && more:
		of = map[string]any{"values": all, "pagelen": size, "next": f.URL + next.String()}
	case f.Kind == "bitbucket":
		of = map[string]any{"values": all, "pagelen": size}
	case f.Kind == "gitea":
		w.Header().Set("X-Total-Count", strconv.Itoa(total))
	case more:
		w.Header().Set("Link", fmt.Sprintf(`<%s%s>; rel="first", <%s%s>; rel="next"`, f.URL, r.URL, f.URL, &next))
	}
	data, _ := json.Marshal(of)
	tag := fmt.Sprintf(`"%x"`, sha256.Sum256(data))
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	f.served++
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
}

func (f *Forge) asksFor(q map[string][]string, p *pull) bool {
	one := func(key string) string { return strings.Join(q[key], ",") }
	switch f.Kind {
	case "github":
		owner := "acme"
		if p.fork {
			owner = "eve"
		}
		return one("state") == "all" && one("head") == owner+":"+p.branch && one("base") == p.base
	case "gitlab":
		return one("state") == "all" && one("source_branch") == p.branch && one("target_branch") == p.base
	case "gitea":
		return (one("state") == "open") == (p.state == "open") && one("base_branch") == p.base
	default:
		state := map[string]string{"open": "OPEN", "merged": "MERGED", "closed": "DECLINED"}[p.state]
		return slices.Contains(q["state"], state) && one("q") == fmt.Sprintf("source.branch.name=%q AND destination.branch.name=%q", p.branch, p.base)
	}
}

// form is a pull request as the provider writes it.
func (f *Forge) form(p *pull) any {
	link := fmt.Sprintf("%s/acme/deploy/pulls/%d", f.URL, p.number)
	created := opened(p).Format(time.RFC3339)
	var merged any
	if p.state == "merged" {
		merged = p.merged.Format(time.RFC3339)
	}
	from := 1
	if p.fork {
		from = 2
	}
	switch f.Kind {
	case "gitlab":
		state := map[string]string{"open": "opened"}[p.state]
		if state == "" {
			state = p.state
		}
		return map[string]any{
			"id": 1000 + p.number, "iid": p.number, "web_url": link, "title": p.title, "description": p.body, "state": state, "created_at": created, "merged_at": merged,
			"source_branch": p.branch, "target_branch": p.base, "source_project_id": from, "target_project_id": 1,
		}
	case "bitbucket":
		end := func(branch string, id int) any {
			return map[string]any{"branch": map[string]any{"name": branch}, "repository": map[string]any{"full_name": map[int]string{1: "acme/deploy", 2: "eve/deploy"}[id]}}
		}
		return map[string]any{
			"id": p.number, "title": p.title, "description": p.body, "state": map[string]string{"open": "OPEN", "merged": "MERGED", "closed": "DECLINED"}[p.state],
			"created_on": created, "updated_on": cmp.Or(merged, any(created)), "links": map[string]any{"html": map[string]any{"href": link}}, "source": end(p.branch, from), "destination": end(p.base, 1),
		}
	default:
		end := func(branch string, id int) map[string]any {
			return map[string]any{"ref": branch, "label": map[int]string{1: "acme:", 2: "eve:"}[id] + branch, "repo": map[string]any{"id": id}}
		}
		head := end(p.branch, from)
		if f.Kind == "gitea" {
			head["label"] = p.branch
			if !p.fork && f.Head(p.branch) == "" { // as a real one has it
				head["ref"] = fmt.Sprintf("refs/pull/%d/head", p.number)
			}
		}
		return map[string]any{
			"number": p.number, "html_url": link, "title": p.title, "body": p.body, "state": map[bool]string{true: "open", false: "closed"}[p.state == "open"],
			"merged_at": merged, "created_at": created, "updated_at": created, "head": head, "base": end(p.base, 1),
		}
	}
}

// open opens a pull request, unless its branch is not there, has nothing new, or has one.
func (f *Forge) open(w http.ResponseWriter, in map[string]any) {
	text := func(keys ...string) string {
		for _, key := range keys {
			if s, ok := in[key].(string); ok {
				return s
			}
		}
		return ""
	}
	p := &pull{title: text("title"), body: text("body", "description"), branch: text("head", "source_branch"), base: text("base", "target_branch"), state: "open"}
	if f.Kind == "bitbucket" {
		name := func(key string) string {
			end, _ := in[key].(map[string]any)
			branch, _ := end["branch"].(map[string]any)
			name, _ := branch["name"].(string)
			return name
		}
		p.branch, p.base = name("source"), name("destination")
	}
	if f.Head(p.branch) == "" || strings.TrimSpace(f.git(f.bare(), "rev-list", "--count", p.base+".."+p.branch)) == "0" {
		answer(w, http.StatusUnprocessableEntity, map[string]any{"message": "Validation Failed", "errors": []any{map[string]any{"message": "No commits between " + p.base + " and " + p.branch}}})
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, other := range f.pulls {
		if other.state == "open" && other.branch == p.branch && other.base == p.base && !other.fork {
			answer(w, http.StatusConflict, map[string]any{"message": "A pull request already exists"})
			return
		}
	}
	p.number = len(f.pulls) + 1
	f.pulls = append(f.pulls, p)
	answer(w, http.StatusCreated, f.form(p))
}

func (f *Forge) edit(w http.ResponseWriter, r *http.Request, in map[string]any, number int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pulls[number-1]
	wanted := map[string]string{"github": http.MethodPatch, "gitea": http.MethodPatch, "gitlab": http.MethodPut, "bitbucket": http.MethodPut}[f.Kind]
	declines := f.Kind == "bitbucket" && strings.HasSuffix(r.URL.Path, "/decline") && r.Method == http.MethodPost
	if r.Method != wanted && !declines {
		f.Errorf("%s does not know %s %s", f.Kind, r.Method, r.URL.Path)
	}
	if title, ok := in["title"].(string); ok {
		p.title = title
	}
	for _, key := range []string{"body", "description"} {
		if body, ok := in[key].(string); ok {
			p.body = body
		}
	}
	f.messages(p)
	if declines || in["state"] == "closed" && f.Kind != "gitlab" || in["state_event"] == "close" && f.Kind == "gitlab" {
		p.state = "closed"
	}
	answer(w, http.StatusOK, f.form(p))
}
