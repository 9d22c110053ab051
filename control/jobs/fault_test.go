package jobs_test

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/deployster-go/deployster/engine"
)

// What an engine does not know to be the fault of a job may go well the next time.
func TestTroubleOfAnEngineIsNotTheFaultOfTheJob(t *testing.T) {
	for text, err := range map[string]error{
		"it has no processes":    &os.PathError{Op: "fork/exec", Path: "/proc/self/exe", Err: syscall.EAGAIN},
		"it says so":             errors.New("start the launcher: fork/exec /proc/self/exe: resource temporarily unavailable"),
		"it has no files":        fmt.Errorf("make a socket to the launcher: %w", syscall.EMFILE),
		"its machine has none":   &engine.SpecError{Cause: errors.New("exec: \"/job\" cannot be executed in image \"x\": too many open files in system")},
		"it only sounds like it": errors.New("the store of entrypoints is locked: image cannot be executed in image"),
		"its launcher is killed": errors.New("runc: the launcher ended before there was one: signal: killed"),
		"it has an error":        errors.New("create the container: Error response from daemon: something is wrong here"),
	} {
		t.Run(text, func(t *testing.T) {
			fake := fakeEngine()
			w := newWorld(t, fake)
			fake.Fail = func(engine.Spec) error { return err }
			w.wants(w.jobs.Build(t.Context(), w.task(w.recipe())), "lost: run image …")
			w.clean()
		})
	}
}

func TestWhatNoContainerCanBeMadeOfIsTheFaultOfTheJob(t *testing.T) {
	for _, text := range []string{
		`entrypoint "/x" cannot be executed in image "i"; check that the file is there and executable: exec: "/x": no such file or directory`,
		`entrypoint "/x" of image "i" is built for another platform than the engine's: exec format error`,
		`image "i" has neither entrypoint nor command: give one: no command specified`,
		"network \"n\" is not in the engine; `docker network ls` lists what is there: network n not found",
		`network "n": without a daemon there are the networks host and none; use the docker engine for others`,
		`mount source /x does not exist: no such file or directory`,
		`argument 1 is too long: of its 200000 bytes the kernel takes 131071`,
	} {
		fake := fakeEngine()
		w := newWorld(t, fake)
		fake.Fail = func(engine.Spec) error { return &engine.SpecError{Cause: errors.New(text)} }
		w.wants(w.jobs.Build(t.Context(), w.task(w.recipe())), "unbuildable: run image …")
		w.clean()
	}
}
