package invert

import (
	"context"
	"fmt"
	"path"

	"assay/internal/forge"
)

// decoys are changes that look as if they mattered and do not: what people
// leave behind on machines.
func decoys(g *Ground) []forge.Delta {
	var all []forge.Delta
	add := func(p, text string) {
		if !g.Has(p) && g.Ours(p) {
			all = append(all, g.Write(p, []byte(text)))
		}
	}
	add("/etc/profile.d/editor.sh", "# what opens commit messages\nexport EDITOR=vi\nexport PAGER=cat\n")
	add("/etc/profile.d/history.sh", "# keep more of it\nexport HISTSIZE=5000\nexport HISTCONTROL=ignoredups\n")
	add("/etc/profile.d/build-cache.sh", "# the build's own cache\nexport BUILD_CACHE_DIR=/var/cache/build\n")
	add("/usr/local/etc/site.env", "SITE=build-7\nREGION=eu\n")
	add("/opt/tools/README", "Tools of the build host; see the wiki.\n")
	add(g.Home()+"/.inputrc", "set completion-ignore-case on\n")
	add(g.Home()+"/.vimrc", "set expandtab\nset shiftwidth=4\n")
	add(g.Dir()+"/NOTES.md", "# Notes\n\n- the release of last week was built on the old host\n- moved the caches, ask before deleting\n")
	add(g.Dir()+"/.editorconfig", "root = true\n\n[*]\nend_of_line = lf\n")
	for _, p := range settings(g) {
		if text, ok := g.Text(p); ok && (path.Ext(p) == ".toml" || path.Ext(p) == ".ini" || path.Ext(p) == ".cfg" || path.Ext(p) == ".yml" || path.Ext(p) == ".yaml") {
			all = append(all, g.Write(p, []byte("# checked after the move to the new host\n"+text)))
			break
		}
	}
	if text, ok := g.Text("/etc/profile.d/project.sh"); ok {
		all = append(all, g.Write("/etc/profile.d/project.sh", []byte("# settings of this host\n"+text)))
	}
	return all
}

// findDecoys keeps the decoys that no test minds, all of them together.
func (d *draft) findDecoys(ctx context.Context) error {
	var together forge.Delta
	list := decoys(d.g)
	for _, one := range list {
		if !clash(together, one) {
			together = merge(together, one)
		}
	}
	if len(together) == 0 {
		return nil
	}
	bite, err := d.probe(ctx, together)
	if err != nil {
		return fmt.Errorf("try decoys: %w", err)
	}
	if len(bite.Failed) == 0 {
		d.decoys = list
	} else {
		d.w.Say("decoys are left out: %d tests mind them", len(bite.Failed))
	}
	return nil
}
