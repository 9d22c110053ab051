package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	pageSize = 50   // pull requests that are listed at once
	ofBranch = 200  // that are read of those of a branch, newest first
	ofBase   = 2000 // and of those into a branch, where they cannot be asked for by their own
)

func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return v
}

// gitHub is that of GitHub, and of its servers elsewhere.
type gitHub struct{ path, owner string }

// branchOf is one end of a pull request as GitHub and Gitea have it.
type branchOf struct {
	Ref   string `json:"ref"`
	Label string `json:"label"`
	Repo  *struct {
		ID int64 `json:"id"`
	} `json:"repo"`
}

// branch is its name. Where the branch is deleted Gitea has the ref of the pull request instead, such
// as refs/pull/7/head, and the name only in the label.
func (b branchOf) branch() string {
	if strings.HasPrefix(b.Ref, "refs/pull/") {
		return b.Label
	}
	return b.Ref
}

// hubPull is a pull request as GitHub and Gitea have it.
type hubPull struct {
	Number  int      `json:"number"`
	URL     string   `json:"html_url"`
	Title   string   `json:"title"`
	Body    string   `json:"body"`
	State   string   `json:"state"`
	Merged  string   `json:"merged_at"`
	Created string   `json:"created_at"`
	Updated string   `json:"updated_at"`
	Head    branchOf `json:"head"`
	Base    branchOf `json:"base"`
}

func (p *hubPull) read() PullRequest {
	state := Closed
	switch {
	case p.Merged != "":
		state = Merged
	case p.State == "open":
		state = Open
	}
	return PullRequest{Number: p.Number, URL: p.URL, Title: p.Title, Body: p.Body, State: state, Merged: at(p.Merged), created: p.Created}
}

// at is a time as providers write it; zero is none.
func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// listHub reads a list as GitHub and Gitea have it. Branches of other repositories, which
// anybody may name as they like, are left out.
func listHub(answer []byte, branch, base string) (of page, err error) {
	var pulls []hubPull
	if err := json.Unmarshal(answer, &pulls); err != nil {
		return of, err
	}
	of.count = len(pulls)
	for _, p := range pulls {
		of.changed = p.Updated
		if p.Head.branch() == branch && p.Base.Ref == base && p.Head.Repo != nil && p.Base.Repo != nil && p.Head.Repo.ID == p.Base.Repo.ID {
			of.pulls = append(of.pulls, p.read())
		}
	}
	return of, nil
}

func openedHub(answer []byte) (PullRequest, error) {
	var p hubPull
	err := json.Unmarshal(answer, &p)
	return p.read(), err
}

func (d gitHub) find(branch, base string) listing {
	return listing{path: d.path, query: values("state", "all", "head", d.owner+":"+branch, "base", base, "per_page", fmt.Sprint(pageSize)), size: pageSize, most: ofBranch}
}

func (gitHub) past(string) (listing, bool) { return listing{}, false }

func (gitHub) list(answer []byte, branch, base string) (page, error) {
	return listHub(answer, branch, base)
}

func (d gitHub) open(t Text, branch, base string) request {
	return request{method: http.MethodPost, path: d.path, body: map[string]string{"title": t.Title, "body": t.Body, "head": branch, "base": base}}
}

func (gitHub) opened(answer []byte) (PullRequest, error) { return openedHub(answer) }

func (d gitHub) edit(number int, t Text) request {
	return request{method: http.MethodPatch, path: fmt.Sprintf("%s/%d", d.path, number), body: map[string]string{"title": t.Title, "body": t.Body}}
}

func (d gitHub) close(number int) request {
	return request{method: http.MethodPatch, path: fmt.Sprintf("%s/%d", d.path, number), body: map[string]string{"state": "closed"}}
}

func (d gitHub) commits(number int) listing {
	return listing{path: fmt.Sprintf("%s/%d/commits", d.path, number), query: values("per_page", fmt.Sprint(pageSize))}
}

func (gitHub) messages(answer []byte) ([]string, error) { return messagesHub(answer) }

// messagesHub reads a list of commits as GitHub and Gitea have it.
func messagesHub(answer []byte) (all []string, err error) {
	var commits []struct {
		Commit struct {
			Message string `json:"message"`
		} `json:"commit"`
	}
	err = json.Unmarshal(answer, &commits)
	for _, c := range commits {
		all = append(all, c.Commit.Message)
	}
	return all, err
}

// gitea is that of Gitea and Forgejo, which differs in how pull requests are listed: they
// cannot be asked for by their branch.
type gitea struct{ path string }

func (d gitea) find(_, base string) listing {
	return listing{path: d.path, query: values("state", "open", "base_branch", base, "limit", fmt.Sprint(pageSize)), size: pageSize, most: ofBase}
}

func (d gitea) past(base string) (listing, bool) {
	query := values("state", "closed", "sort", "recentupdate", "base_branch", base, "limit", fmt.Sprint(pageSize))
	return listing{path: d.path, query: query, size: pageSize, most: ofBase}, true
}

func (gitea) list(answer []byte, branch, base string) (page, error) {
	return listHub(answer, branch, base)
}

func (d gitea) open(t Text, branch, base string) request {
	return gitHub{path: d.path}.open(t, branch, base)
}

func (gitea) opened(answer []byte) (PullRequest, error) { return openedHub(answer) }

func (d gitea) edit(number int, t Text) request { return gitHub{path: d.path}.edit(number, t) }

func (d gitea) close(number int) request { return gitHub{path: d.path}.close(number) }

func (d gitea) commits(number int) listing {
	return listing{path: fmt.Sprintf("%s/%d/commits", d.path, number), query: values("limit", fmt.Sprint(pageSize))}
}

func (gitea) messages(answer []byte) ([]string, error) { return messagesHub(answer) }

// gitLab is that of GitLab, where they are merge requests.
type gitLab struct{ path string }

type labPull struct {
	Number  int    `json:"iid"`
	URL     string `json:"web_url"`
	Title   string `json:"title"`
	Body    string `json:"description"`
	State   string `json:"state"`
	Created string `json:"created_at"`
	Merged  string `json:"merged_at"`
	Branch  string `json:"source_branch"`
	Base    string `json:"target_branch"`
	From    int64  `json:"source_project_id"`
	Into    int64  `json:"target_project_id"`
}

func (p *labPull) read() PullRequest {
	state := Closed
	switch p.State {
	case "opened", "locked":
		state = Open
	case "merged":
		state = Merged
	}
	return PullRequest{Number: p.Number, URL: p.URL, Title: p.Title, Body: p.Body, State: state, Merged: at(p.Merged), created: p.Created}
}

func (d gitLab) find(branch, base string) listing {
	return listing{path: d.path, query: values("state", "all", "scope", "all", "source_branch", branch, "target_branch", base, "per_page", fmt.Sprint(pageSize)), size: pageSize, most: ofBranch}
}

func (gitLab) past(string) (listing, bool) { return listing{}, false }

func (gitLab) list(answer []byte, branch, base string) (of page, err error) {
	var pulls []labPull
	if err := json.Unmarshal(answer, &pulls); err != nil {
		return of, err
	}
	of.count = len(pulls)
	for _, p := range pulls {
		if p.Branch == branch && p.Base == base && p.From == p.Into {
			of.pulls = append(of.pulls, p.read())
		}
	}
	return of, nil
}

func (d gitLab) open(t Text, branch, base string) request {
	return request{method: http.MethodPost, path: d.path, body: map[string]string{"title": t.Title, "description": t.Body, "source_branch": branch, "target_branch": base}}
}

func (gitLab) opened(answer []byte) (PullRequest, error) {
	var p labPull
	err := json.Unmarshal(answer, &p)
	return p.read(), err
}

func (d gitLab) edit(number int, t Text) request {
	return request{method: http.MethodPut, path: fmt.Sprintf("%s/%d", d.path, number), body: map[string]string{"title": t.Title, "description": t.Body}}
}

func (d gitLab) close(number int) request {
	return request{method: http.MethodPut, path: fmt.Sprintf("%s/%d", d.path, number), body: map[string]string{"state_event": "close"}}
}

func (d gitLab) commits(number int) listing {
	return listing{path: fmt.Sprintf("%s/%d/commits", d.path, number), query: values("per_page", fmt.Sprint(pageSize))}
}

// commitOf is a commit as GitLab and Bitbucket have it.
type commitOf struct {
	Message string `json:"message"`
}

func messagesOf(commits []commitOf) (all []string) {
	for _, c := range commits {
		all = append(all, c.Message)
	}
	return all
}

func (gitLab) messages(answer []byte) ([]string, error) {
	var commits []commitOf
	err := json.Unmarshal(answer, &commits)
	return messagesOf(commits), err
}

// bitbucket is that of Bitbucket Cloud.
type bitbucket struct{ path, repository string }

type bucketEnd struct {
	Branch struct {
		Name string `json:"name"`
	} `json:"branch"`
	Repository *struct {
		Name string `json:"full_name"`
	} `json:"repository,omitempty"`
}

type bucketPull struct {
	Number  int    `json:"id"`
	Title   string `json:"title"`
	Body    string `json:"description"`
	State   string `json:"state"`
	Created string `json:"created_on"`
	Updated string `json:"updated_on"` // nothing says when it was merged
	Links   struct {
		HTML struct {
			URL string `json:"href"`
		} `json:"html"`
	} `json:"links"`
	Source      bucketEnd `json:"source"`
	Destination bucketEnd `json:"destination"`
}

func (p *bucketPull) read() PullRequest {
	read := PullRequest{Number: p.Number, URL: p.Links.HTML.URL, Title: p.Title, Body: p.Body, State: Closed, created: p.Created}
	switch p.State {
	case "OPEN", "DRAFT", "QUEUED":
		read.State = Open
	case "MERGED":
		read.State, read.Merged = Merged, at(p.Updated)
	}
	return read // or declined, or superseded
}

func (d bitbucket) find(branch, base string) listing {
	quote := func(text string) string {
		data, _ := json.Marshal(text) // every text has a form
		return string(data)
	}
	query := values("q", "source.branch.name="+quote(branch)+" AND destination.branch.name="+quote(base),
		"state", "OPEN", "state", "MERGED", "state", "DECLINED", "state", "SUPERSEDED", "sort", "-created_on", "pagelen", fmt.Sprint(pageSize))
	return listing{path: d.path, query: query, size: pageSize, most: ofBranch}
}

func (bitbucket) past(string) (listing, bool) { return listing{}, false }

func (d bitbucket) list(answer []byte, branch, base string) (of page, err error) {
	var all struct {
		Values []bucketPull `json:"values"`
		Next   string       `json:"next"` // URL
	}
	if err := json.Unmarshal(answer, &all); err != nil {
		return of, err
	}
	of.count, of.more = len(all.Values), all.Next != ""
	for _, p := range all.Values {
		if p.Source.Branch.Name == branch && p.Destination.Branch.Name == base && p.Source.Repository != nil && strings.EqualFold(p.Source.Repository.Name, d.repository) {
			of.pulls = append(of.pulls, p.read())
		}
	}
	return of, nil
}

func (d bitbucket) open(t Text, branch, base string) request {
	var from, into bucketEnd
	from.Branch.Name, into.Branch.Name = branch, base
	return request{method: http.MethodPost, path: d.path, body: map[string]any{"title": t.Title, "description": t.Body, "source": from, "destination": into}}
}

func (bitbucket) opened(answer []byte) (PullRequest, error) {
	var p bucketPull
	err := json.Unmarshal(answer, &p)
	return p.read(), err
}

func (d bitbucket) edit(number int, t Text) request {
	return request{method: http.MethodPut, path: fmt.Sprintf("%s/%d", d.path, number), body: map[string]string{"title": t.Title, "description": t.Body}}
}

func (d bitbucket) close(number int) request {
	return request{method: http.MethodPost, path: fmt.Sprintf("%s/%d/decline", d.path, number)}
}

func (d bitbucket) commits(number int) listing {
	return listing{path: fmt.Sprintf("%s/%d/commits", d.path, number), query: values("pagelen", fmt.Sprint(pageSize))}
}

func (bitbucket) messages(answer []byte) ([]string, error) {
	var page struct {
		Values []commitOf `json:"values"`
	}
	err := json.Unmarshal(answer, &page)
	return messagesOf(page.Values), err
}
