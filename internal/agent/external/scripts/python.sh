#!/bin/sh
# Installs pip packages into $PLACE, with a copy of the image's Python. Runs in
# the installation's sandbox alone. PACKAGES: pins; WANT: a version or empty.
set -eu
py=$(command -v python3) || {
	echo "python3 is not in this image; install upon one that has it: --image python:3.12-bookworm" >&2
	exit 1
}
have=$("$py" -c 'import platform; print(platform.python_version())')
case "$have." in
"$WANT"*) ;;
*)
	echo "this image has Python $have, and the recipe wants $WANT; install upon another: --image python:$WANT-bookworm" >&2
	exit 1
	;;
esac
export HOME=/tmp/assay-home PIP_CACHE_DIR=/var/cache/assay-pip PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
mkdir -p "$HOME" "$PLACE/.assay"
"$py" /run/assay-install/python.py "$PLACE"
"$PLACE/py/bin/python3" -I -m venv --without-pip "$PLACE"
if [ -z "$PACKAGES" ]; then
	: # nothing to ask a package manager for
elif "$py" -m pip --version >/dev/null 2>&1; then
	set -- "$py" -m pip --python "$PLACE/bin/python3"
elif "$py" -m ensurepip --version >/dev/null 2>&1; then
	"$py" -m ensurepip --root "$HOME/pip" >/dev/null
	PYTHONPATH=$(dirname "$(find "$HOME/pip" -type d -name pip -path '*-packages/pip' | head -n 1)")
	export PYTHONPATH
	set -- "$py" -m pip --python "$PLACE/bin/python3"
else
	echo "neither pip nor ensurepip is in this image; install upon one that has it: --image python:3.12-bookworm" >&2
	exit 1
fi
if [ -n "$PACKAGES" ]; then
	# shellcheck disable=SC2086 # pins have no blanks
	"$@" install --no-input --no-compile --progress-bar off --quiet --report "$PLACE/.assay/pip.json" $PACKAGES
fi
echo "$have" >"$PLACE/.assay/runtime"
unset PYTHONPATH
# Layers keep no times, by which Python would judge its compiled files.
"$PLACE/bin/python3" -I -m compileall -q -j 2 --invalidation-mode unchecked-hash "$PLACE/lib" "$PLACE/py/lib" >/dev/null 2>&1 || true
rm -rf "$HOME"
