package inside

import (
	"runtime"
	"sync"

	"assay/internal/sandbox/docker/wire"
)

// Threads are those of the first process. They count against the container's
// limit of processes, which is larger by as many: where programs use up what is
// left, no further thread could be made, and Go ends a process that wants one.
const Threads = 32

// spareThreads makes as many as the process is to have, in advance: the runtime
// keeps those that have nothing to do. A goroutine that is locked to its thread
// and waits leaves none for the others, so that each makes one more.
func spareThreads(n int) {
	var made, gone sync.WaitGroup
	end := make(chan struct{})
	for range n {
		made.Add(1)
		gone.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			made.Done()
			<-end
		})
	}
	made.Wait()
	close(end)
	gone.Wait()
}

// slots bound how many requests are in the kernel at once. A call that lasts
// holds a thread, and the runtime makes another for those that could run: with
// more such calls than spare threads it would want one that cannot be made.
type slots chan struct{}

// busy are the slots of one process: enough to keep its processors at work, and
// far fewer than its spare threads.
const busy = 12

func (s slots) enter() { s <- struct{}{} }
func (s slots) leave() { <-s }

// outside is a stream whose other end may be slow: to wait for it takes no slot.
type outside struct {
	st    *wire.Stream
	slots slots
}

func (o outside) Read(b []byte) (int, error) {
	o.slots.leave()
	defer o.slots.enter()
	return o.st.Read(b)
}

func (o outside) Write(b []byte) (int, error) {
	o.slots.leave()
	defer o.slots.enter()
	return o.st.Write(b)
}
