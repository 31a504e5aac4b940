package inside

import (
	"runtime"
	"sync"
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
