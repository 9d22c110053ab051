package identity

import "context"

// WithPeer is the context of a connection of a user.
func WithPeer(ctx context.Context, p Peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}
