// Package identity is who asks a server for something, and what they may do.
//
// An identity is authenticated by a bearer token, which is created and revoked by events
// of the log, or by the operating system, which says what user is at the other end of a
// Unix socket. What it is called is what the log says of whoever did something.
package identity

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Role is what an identity may do.
type Role string

// The roles. Everybody who has one may read. An approver also approves and rejects, an
// operator also releases, deploys and cancels, and an admin may do everything.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Approver Role = "approver"
	Admin    Role = "admin"
)

// Roles are all roles.
func Roles() []Role { return []Role{Viewer, Operator, Approver, Admin} }

// ParseRole reads a role.
func ParseRole(text string) (Role, error) {
	if r := Role(text); slices.Contains(Roles(), r) {
		return r, nil
	}
	return "", fmt.Errorf("%q is no role: it is viewer, operator, approver or admin", text)
}

// Includes reports whether who has this role may do what another one is needed for.
func (r Role) Includes(needed Role) bool {
	switch r {
	case Admin:
		return slices.Contains(Roles(), needed)
	case Operator, Approver:
		return needed == r || needed == Viewer
	default:
		return r == Viewer && needed == Viewer
	}
}

// Kinds of what a grant may be for.
const (
	Pipelines    = "pipelines"
	Environments = "environments"
)

// Grant is a role, for all there is or for the pipelines and environments that it names.
type Grant struct {
	Role         Role     `json:"role"`
	Pipelines    []string `json:"pipelines,omitempty"`
	Environments []string `json:"environments,omitempty"`
}

// scoped reports whether the grant is not for all there is.
func (g Grant) scoped() bool { return len(g.Pipelines)+len(g.Environments) > 0 }

// Names is what the grant says of where it is for.
func (g Grant) Names() string {
	if !g.scoped() {
		return "everything"
	}
	var names []string
	for _, p := range g.Pipelines {
		names = append(names, "pipeline "+p)
	}
	for _, e := range g.Environments {
		names = append(names, "environment "+e)
	}
	return strings.Join(names, ", ")
}

// Identity is somebody who was authenticated.
type Identity struct {
	Name   string  `json:"name"` // as the log calls them
	Grants []Grant `json:"grants"`
}

// MayRead reports whether the identity may read anything.
func (i Identity) MayRead() bool {
	return slices.ContainsFunc(i.Grants, func(g Grant) bool { return g.Role.Includes(Viewer) })
}

// ReadsAll reports whether the identity may read everything. A viewer of some pipelines and environments reads these
// alone; any other role needs to see what its deeds are about, and the log is one history.
func (i Identity) ReadsAll() bool {
	return slices.ContainsFunc(i.Grants, func(g Grant) bool { return g.Role.Includes(Viewer) && (g.Role != Viewer || !g.scoped()) })
}

// Reads names what an identity reads that does not read everything.
func (i Identity) Reads() string {
	var names []string
	for _, g := range i.Grants {
		names = append(names, g.Names())
	}
	return strings.Join(names, ", ")
}

// May reports whether the identity may do what a role is needed for, with one thing of a
// kind. An empty kind is what concerns all there is.
func (i Identity) May(needed Role, kind, name string) bool {
	if needed == Viewer && i.ReadsAll() {
		return true
	}
	return slices.ContainsFunc(i.Grants, func(g Grant) bool {
		return g.Role.Includes(needed) && (!g.scoped() || slices.Contains(g.of(kind), name) && name != "")
	})
}

// of are the names that the grant is for.
func (g Grant) of(kind string) []string {
	switch kind {
	case Pipelines:
		return g.Pipelines
	case Environments:
		return g.Environments
	default:
		return nil
	}
}

type key struct{}

// In is a context of what an identity does.
func In(ctx context.Context, i Identity) context.Context { return context.WithValue(ctx, key{}, i) }

// Of is the identity of whom a context is; the zero one may do nothing.
func Of(ctx context.Context) Identity {
	i, _ := ctx.Value(key{}).(Identity)
	return i
}
