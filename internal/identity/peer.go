package identity

import (
	"context"
	"fmt"
	"net"
	"os/user"
	"strconv"
	"strings"
)

// Peer is the user at the other end of a Unix socket, as the operating system says.
type Peer struct {
	UID  int
	User string // its name, or "uid N" where it has none
}

type peerKey struct{}

// ConnContext puts the Peer of a connection into its context, where it has one. It is for
// http.Server.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	socket, is := c.(*net.UnixConn)
	if !is {
		return ctx
	}
	uid, err := peerOf(socket)
	if err != nil {
		return ctx // nobody is authenticated by it
	}
	p := Peer{UID: uid, User: "uid " + strconv.Itoa(uid)}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		p.User = u.Username
	}
	return context.WithValue(ctx, peerKey{}, p)
}

// PeerOf is the user at the other end of the socket on which a request has come.
func PeerOf(ctx context.Context) (p Peer, ok bool) {
	p, ok = ctx.Value(peerKey{}).(Peer)
	return p, ok
}

// Locals are what users of this machine may do.
type Locals struct {
	Own   int             // the user whose process this is, who may do everything, as root may
	Host  string          // of this machine
	Roles map[string]Role // by the names of users; others may read
}

// ParseLocal reads USER=ROLE.
func ParseLocal(text string) (name string, role Role, err error) {
	name, of, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return "", "", fmt.Errorf("%q is not USER=ROLE, as in ada=operator", text)
	}
	role, err = ParseRole(of)
	return name, role, err
}

// identity is that of a user.
func (l Locals) identity(p Peer) Identity {
	role := Viewer
	if known, ok := l.Roles[p.User]; ok {
		role = known
	}
	if p.UID == 0 || p.UID == l.Own {
		role = Admin
	}
	return Identity{Name: strings.TrimSuffix(p.User+"@"+l.Host, "@"), Grants: []Grant{{Role: role}}}
}
