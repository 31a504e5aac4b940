package hostile

import "golang.org/x/sys/unix"

// sysPorts asks for the ports of the machine's devices.
const sysPorts = unix.SYS_IOPL
