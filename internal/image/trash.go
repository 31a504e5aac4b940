package image

// Trash is where what the store has let go lies until it is removed. All of it
// may be removed at any time, by whoever can: an ordinary user cannot remove
// what a sandbox with subordinate ids left in a cache mount.
func (s *Store) Trash() HostPath { return HostPath(s.path(trashDir)) }
