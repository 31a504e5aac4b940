// Package image is the store of content-addressed layers that every sandbox
// mounts, and the sources that fill it: rootfs directories and tars, docker
// save archives, OCI layouts, and the pseudo-image "host".
//
// A layer is a tree on disk plus a manifest (path, type, mode, owner, xattrs,
// link target, whiteout, opaque mark, content digest). The manifest is the
// truth: owners and setid bits live there whatever the disk could hold, and
// the layer's id is the manifest's digest. Layers are immutable once they have
// an id. The package starts no process and mounts nothing; archives and trees
// it reads are hostile.
package image
