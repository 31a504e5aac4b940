package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Space looks for room below dir, or below what there is of its path: for that
// many bytes, and for that many files where the file system counts them.
func Space(dir string, bytes, files uint64) Finding {
	f := Finding{Name: "store space"}
	at := dir
	var st syscall.Statfs_t
	for {
		err := syscall.Statfs(at, &st)
		if err == nil {
			break
		}
		up := filepath.Dir(at)
		if !errors.Is(err, fs.ErrNotExist) || up == at {
			f.Detail, f.Means, f.Remedy = fmt.Sprintf("%s: %v", at, err), "layers cannot be stored", "choose another directory with --store DIR"
			return f
		}
		at = up
	}
	free := uint64(st.Bavail) * uint64(st.Bsize)
	f.Detail = fmt.Sprintf("%s: %.1f GiB free", dir, float64(free)/(1<<30))
	if st.Files > 0 {
		f.Detail += fmt.Sprintf(", room for %d files", st.Ffree)
	}
	const remedy = "remove what nobody needs ('assay image gc', 'assay job rm'), or put the store elsewhere with --store DIR"
	switch {
	case free < bytes:
		f.Means, f.Remedy = fmt.Sprintf("below %.1f GiB, a base image and its builds may not fit, and a job pauses below its --min-free", float64(bytes)/(1<<30)), remedy
	case st.Files > 0 && uint64(st.Ffree) < files:
		f.Means, f.Remedy = fmt.Sprintf("below %d inodes, a base image and its builds may not fit, however many bytes are free", files), remedy+"; a file system gets its number of inodes when it is made (mkfs.ext4 -i)"
	default:
		f.OK = true
	}
	return f
}

// KVM looks for hardware virtualization below root, empty for this machine's.
func KVM(root string) Finding {
	const dev = "/dev/kvm"
	f := Finding{Name: "kvm", Means: "no virtual machine could be started; nothing that assay does today needs one"}
	file, err := os.OpenFile(filepath.Join("/", root, dev), os.O_RDWR, 0)
	switch {
	case err == nil:
		file.Close()
		return Finding{Name: "kvm", OK: true, Detail: dev + " can be opened"}
	case errors.Is(err, fs.ErrNotExist):
		f.Detail = dev + " is not there"
		f.Remedy = "switch virtualization on in the firmware and load kvm_intel or kvm_amd; in a virtual machine, its host must allow nested ones; Docker: --device /dev/kvm"
	case errors.Is(err, fs.ErrPermission):
		f.Detail = dev + ": " + syscallOf(err)
		f.Remedy = "usermod -aG kvm USER (as root), then log in again"
	default:
		f.Detail, f.Remedy = dev+": "+syscallOf(err), "see the error: the device is there and does not work"
	}
	return f
}

// syscallOf is the system's part of an error, without the path.
func syscallOf(err error) string {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e.Error()
	}
	return err.Error()
}
