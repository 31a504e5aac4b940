package setup

import "syscall"

// nonblock keeps a pipe that took a file's place from holding the copy up.
const nonblock = syscall.O_NONBLOCK
