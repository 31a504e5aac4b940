package image

// Capability is the attribute that holds a program's capabilities.
const Capability = "security.capability"

// Hidden reports whether an entry says more than its layer's files on disk
// show to whoever owns them all, and could show to who has several user ids:
// an owner, setid bits, capabilities, a mode by which even the owner cannot
// read. What no disk holds at all is not hidden: it is not there.
func (e Entry) Hidden() bool {
	owned := e.UID != 0 || e.GID != 0
	switch e.Type {
	case TypeSymlink:
		return owned
	case TypeDir, TypeFile, TypeFIFO:
		return owned || e.Mode&0o6000 != 0 || uint32(diskMode(e).Perm()) != e.Mode&0o777 || e.Xattrs[Capability] != ""
	}
	return false
}
