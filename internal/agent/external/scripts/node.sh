#!/bin/sh
# Installs npm packages into $PLACE. Runs in the installation's sandbox alone.
# NODE: the package that carries node; PACKAGES: pins; SCRIPTS: 1 or empty.
set -eu
command -v npm >/dev/null || {
	echo "npm is not in this image; install upon one that has it: --image node:22-bookworm" >&2
	exit 1
}
mkdir -p "$PLACE/bin" "$PLACE/.assay"
cd "$PLACE"
export HOME=/tmp/assay-home npm_config_cache=/var/cache/assay-npm npm_config_update_notifier=false
export npm_config_ignore_scripts=true npm_config_fund=false npm_config_audit=false npm_config_progress=false
mkdir -p "$HOME"
# Node itself comes in a tree of its own: npm would take it back.
mkdir -p /tmp/assay-node
cd /tmp/assay-node
echo '{"private": true}' >package.json
npm install --loglevel=error --save-exact "$NODE"
mv "node_modules/${NODE%@*}/bin/node" "$PLACE/bin/node"
cp node_modules/.package-lock.json "$PLACE/.assay/node.json"
cd "$PLACE"
rm -rf /tmp/assay-node
echo '{"private": true}' >package.json
# Install scripts and the choice of packages by version go by the node that
# the agent will run on.
PATH="$PLACE/bin:$PATH"
export PATH
if [ -n "$SCRIPTS" ]; then
	npm_config_ignore_scripts=false
fi
# shellcheck disable=SC2086 # pins have no blanks
npm install --loglevel=error --save-exact $PACKAGES
cp node_modules/.package-lock.json .assay/npm.json
bin/node --version >.assay/runtime
bin/node -e '
const fs = require("fs");
for (const pin of process.argv.slice(1)) {
	const name = pin.replace(/(.)@[^@]*$/, "$1");
	const p = JSON.parse(fs.readFileSync(`node_modules/${name}/package.json`, "utf8"));
	const bins = typeof p.bin === "string" ? [name.replace(/^.*\//, "")] : Object.keys(p.bin || {});
	for (const b of bins) if (/^[\w.-]+$/.test(b) && b !== "node" && fs.existsSync(`node_modules/.bin/${b}`))
		fs.symlinkSync(`../node_modules/.bin/${b}`, `bin/${b}`);
}' -- $PACKAGES
rm -rf "$HOME"
