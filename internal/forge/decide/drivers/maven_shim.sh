#!/bin/sh
# Stands for the JVM in which Surefire runs tests: it keeps how that is called, and runs none.
here=/tmp/.assay-maven/call
case "$*" in
*surefirebooter*|*ForkedBooter*)
  [ -e "$here/args" ] && exit 1
  mkdir -p "$here/surefire"
  pwd >"$here/pwd"
  env -0 >"$here/env"
  for a in "$@"; do
    case "$a" in *surefirebooter*.jar) cp "$(dirname "$a")"/*tmp "$here/surefire/" ;; esac
  done
  for a in "$@"; do printf '%s\0' "$a"; done >"$here/args"
  exit 1 ;;
esac
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "$@"
