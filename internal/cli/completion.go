package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (completionCmd) Help() string {
	return `Example:
  assay completion bash > /etc/bash_completion.d/assay
  source <(assay completion zsh)

Exit status: 0; 2 for a shell that is not one of the three.`
}

func (c completionCmd) Run(a *app, g *grammar) error {
	words := map[string][]string{} // command path -> words that may follow
	collect(a.parser.Model.Node, "", words)
	if g.JSON {
		return a.emit("completion", words)
	}
	var paths []string
	for p := range words {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	switch c.Shell {
	case "bash", "zsh":
		if c.Shell == "zsh" {
			fmt.Fprintln(a.Stdout, "autoload -U +X bashcompinit && bashcompinit")
		}
		fmt.Fprintln(a.Stdout, "_assay() {\n  local cur=${COMP_WORDS[COMP_CWORD]} path=\"\" w\n  for w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do case \"$path $w\" in")
		for _, p := range paths {
			if p != "" {
				fmt.Fprintf(a.Stdout, "    %q) path=%q ;;\n", " "+p, " "+p)
			}
		}
		fmt.Fprintln(a.Stdout, "  esac; done\n  case \"$path\" in")
		for _, p := range paths {
			key := p
			if p != "" {
				key = " " + p
			}
			fmt.Fprintf(a.Stdout, "    %q) COMPREPLY=( $(compgen -W %q -- \"$cur\") ) ;;\n", key, strings.Join(words[p], " "))
		}
		fmt.Fprintln(a.Stdout, "  esac\n}\ncomplete -o default -F _assay assay")
	case "fish":
		for _, p := range paths {
			cond := "__fish_use_subcommand"
			if p != "" {
				parts := strings.Fields(p)
				cond = "__fish_seen_subcommand_from " + parts[len(parts)-1]
			}
			for _, w := range words[p] {
				if long, ok := strings.CutPrefix(w, "--"); ok {
					fmt.Fprintf(a.Stdout, "complete -c assay -n %q -l %s\n", cond, long)
				} else {
					fmt.Fprintf(a.Stdout, "complete -c assay -n %q -a %s\n", cond, w)
				}
			}
		}
	}
	return nil
}

// collect walks kong's model: the words that may follow each command.
func collect(n *kong.Node, path string, words map[string][]string) {
	var list []string
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		list = append(list, child.Name)
		collect(child, strings.TrimSpace(path+" "+child.Name), words)
	}
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			list = append(list, "--"+f.Name)
		}
	}
	words[path] = list
}
