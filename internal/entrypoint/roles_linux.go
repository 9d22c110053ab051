package entrypoint

import "os"

func take(args []string) int {
	if len(args) == 0 {
		return refuse("this command is for deployster itself")
	}
	switch role, rest := args[0], args[1:]; role {
	case roleLaunch:
		return launch()
	case roleNow, roleAwait, roleAwaitWhole:
		return shim(role, rest)
	case rolePod:
		return pod(rest)
	case rolePrepare:
		return prepare(rest)
	case roleEmpty:
		return takeEmpty(EmptyTarget, os.Getpid())
	default:
		return refuse("there is no role " + role)
	}
}
