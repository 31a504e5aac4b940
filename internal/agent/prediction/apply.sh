# Applies a patch in the working directory as SWE-bench does, try by try, and
# says which one worked. What a try that failed has touched is put back, and
# nothing but that: other harnesses reset the whole tree, and with it what the
# image's makers left uncommitted.
#   $1 the patch   $2 the paths that it names, one a line; empty: unknown
# "git apply --reject", which SWE-bench tries third, ends with 0 for no patch
# that plain "git apply" refuses, and is left out.
patch=$1
paths=$2
kept=$(mktemp -d) || exit 1
export GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0 HOME="$kept"
export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' GIT_CONFIG_KEY_1=core.hooksPath GIT_CONFIG_VALUE_1=/dev/null

repo=''
if command -v git >/dev/null 2>&1; then
	repo=$(git rev-parse --absolute-git-dir 2>/dev/null) || repo=''
elif ! command -v patch >/dev/null 2>&1; then
	echo "neither git nor patch is in the image"
	exit 96
fi

keep() {
	mkdir -p "$kept/tree"
	while IFS= read -r p; do
		[ -e "$p" ] || [ -L "$p" ] || continue
		mkdir -p "$kept/tree/$(dirname "$p")" && cp -a "$p" "$kept/tree/$p" || return 1
	done <"$paths"
	[ ! -f "$repo/index" ] || cp "$repo/index" "$kept/index"
}

put_back() {
	while IFS= read -r p; do
		rm -rf "$p"
		if [ -e "$kept/tree/$p" ] || [ -L "$kept/tree/$p" ]; then
			mkdir -p "$(dirname "$p")" && cp -a "$kept/tree/$p" "$p" || return 1
		fi
	done <"$paths"
	[ ! -f "$kept/index" ] || cp "$kept/index" "$repo/index"
}

done_by() {
	rm -rf "$kept"
	echo "applied by: $1"
	exit 0
}

if command -v git >/dev/null 2>&1; then
	git apply --verbose "$patch" 2>&1 && done_by "git apply"
	if [ -n "$repo" ] && [ -s "$paths" ] && keep; then
		git apply --verbose --3way "$patch" 2>&1 && done_by "git apply --3way"
		put_back || exit 1
	fi
fi
if command -v patch >/dev/null 2>&1; then
	if patch --batch --forward --fuzz=5 -p1 --dry-run -i "$patch" 2>&1; then
		patch --batch --forward --fuzz=5 -p1 --no-backup-if-mismatch -i "$patch" 2>&1 && done_by "patch --fuzz=5"
		exit 1
	fi
fi
if command -v git >/dev/null 2>&1; then
	git apply --check --reverse "$patch" >/dev/null 2>&1 && done_by "nothing: it is applied already"
fi
rm -rf "$kept"
echo "no try applied the patch"
exit 1
