package ns

import (
	"slices"
)

// softFrozen is from how many frozen volumes on they are merged in the
// background, so that nobody waits for it at maxFrozen.
const softFrozen = 24

// flat is what some frozen volumes of a box come to.
type flat struct {
	old    []*volume
	merged *volume // held
}

// flatten merges the volumes of a box from one place on if they are becoming
// many. The box goes on meanwhile; settleFlat puts the result to use.
func (k *keeper) flatten(b *box, from int) {
	old := slices.Clone(b.on.frozen[min(from, len(b.on.frozen)):])
	k.mu.Lock()
	busy := b.flattening || b.flat != nil || len(old) <= softFrozen
	b.flattening = b.flattening || !busy
	k.mu.Unlock()
	if busy {
		return
	}
	k.hold(old...)
	k.trash.Go(func() {
		v, err := k.merged(old)
		k.release(old...)
		k.mu.Lock()
		b.flattening = false
		if err == nil && !b.over {
			b.flat, v = &flat{old, v}, nil
		}
		k.mu.Unlock()
		if err == nil && v != nil {
			k.release(v) // the box ended first
		}
		// An error is left to shallow, which meets it again and tells somebody.
	})
}

// merged is a new volume with what others come to.
func (k *keeper) merged(old []*volume) (*volume, error) {
	var bytes, inodes int64
	disk := false
	uppers := []string{}
	for _, v := range slices.Backward(old) {
		b, i := v.used()
		bytes, inodes, disk = bytes+b, inodes+i, disk || v.disk
		uppers = append(uppers, v.upper())
	}
	v, err := k.newVolume(bytes+1<<20, inodes, disk)
	if err != nil {
		return nil, err
	}
	if err := copyUppers(uppers, v.upper(), k.noFollow); err != nil {
		k.release(v)
		return nil, err
	}
	return v, nil
}

// settleFlat replaces, in a stack that its caller holds, the volumes that were
// merged meanwhile. It takes the holds over.
func (k *keeper) settleFlat(b *box, st *stack) *stack {
	k.mu.Lock()
	f := b.flat
	b.flat = nil
	k.mu.Unlock()
	if f == nil {
		return st
	}
	at := slices.Index(st.frozen, f.old[0])
	if at < 0 || len(st.frozen) < at+len(f.old) || !slices.Equal(st.frozen[at:at+len(f.old)], f.old) {
		k.release(f.merged) // the box went back to before them
		return st
	}
	frozen := slices.Clone(st.frozen)
	frozen = slices.Replace(frozen, at, at+len(f.old), f.merged)
	for _, v := range f.old {
		delete(b.own, v)
	}
	b.own[f.merged] = true
	k.release(f.old...)
	return &stack{layers: st.layers, frozen: frozen, covers: st.covers}
}

// dropFlat gives back what a box that ends has not used.
func (k *keeper) dropFlat(b *box) {
	k.mu.Lock()
	f := b.flat
	b.flat, b.over = nil, true
	k.mu.Unlock()
	if f != nil {
		k.release(f.merged)
	}
}
