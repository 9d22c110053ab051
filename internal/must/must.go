// Package must lets tests use the result of a call where they need it, in one line:
//
//	assert.Equal(t, want, must.Get(os.ReadFile(name))(t))
//	assert.ErrorIs(t, must.Fail(os.ReadFile(name)), fs.ErrNotExist)
package must

import "github.com/stretchr/testify/require"

// Get returns a function that returns v. The function ends the test if err is not nil.
func Get[T any](v T, err error) func(require.TestingT) T {
	return func(t require.TestingT) T {
		if h, ok := t.(interface{ Helper() }); ok {
			h.Helper()
		}
		require.NoError(t, err)
		return v
	}
}

// Fail returns err. Use it for a call that has to fail, whose value is of no interest.
func Fail[T any](_ T, err error) error { return err }
