package identity

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/user"
	"slices"
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
	None  bool            // nobody is known by an account but those of Roles: a token is needed
}

// NoRole is the word for Locals.None, in the place of USER=ROLE.
const NoRole = "none"

// ParseLocal reads USER=ROLE.
func ParseLocal(text string) (name string, role Role, err error) {
	name, of, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return "", "", fmt.Errorf("%q is not USER=ROLE, as in ada=operator", text)
	}
	role, err = ParseRole(of)
	return name, role, err
}

// identify is who sends a request over a socket, by the account.
func (l Locals) identify(p Peer, r *http.Request) (Identity, error) {
	role, named := l.Roles[p.User]
	switch {
	case forwarded(r.Header):
		return Identity{}, fmt.Errorf("%w: a proxy passed the request on, and its account %s is not that of who asks", ErrUnknown, p.User)
	case named && l.None:
	case l.None:
		return Identity{}, fmt.Errorf("%w: there is no token, and accounts of the machine say nothing here", ErrUnknown)
	case p.UID == 0 || p.UID == l.Own:
		role = Admin
	case !named:
		role = Viewer
	}
	return Identity{Name: strings.TrimSuffix(p.User+"@"+l.Host, "@"), Grants: []Grant{{Role: role}}}, nil
}

// forwarded reports whether a proxy says that a request is of somebody else.
func forwarded(h http.Header) bool {
	return slices.ContainsFunc([]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"}, func(name string) bool {
		return len(h.Values(name)) > 0
	})
}
