package image

import "errors"

// ErrCap: an archive or tree is larger than the caps allow.
var ErrCap = errors.New("larger than the cap")

// Caps bound what one layer may hold, so that no archive fills a disk or the
// memory. A zero field means its default.
type Caps struct {
	Entries int   // names; default 2,000,000
	Bytes   int64 // content, and an archive once unpacked; default 64 GiB
	Path    int   // bytes of a path or a link target; default 4096
	Depth   int   // directories above a name; default 200
	Xattrs  int   // bytes of names and values of one entry; default 64 KiB
}

func (c Caps) orDefault() Caps {
	if c.Entries == 0 {
		c.Entries = 2_000_000
	}
	if c.Bytes == 0 {
		c.Bytes = 64 << 30
	}
	if c.Path == 0 {
		c.Path = 4096
	}
	if c.Depth == 0 {
		c.Depth = 200
	}
	if c.Xattrs == 0 {
		c.Xattrs = 64 << 10
	}
	return c
}

// Caps are the store's.
func (s *Store) Caps() Caps { return s.opt.Caps }
