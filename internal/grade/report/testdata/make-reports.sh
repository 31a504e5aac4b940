#!/usr/bin/env bash
# Makes the reports below testdata/ anew: real runners, run over projects/.
# Not run in CI. It needs python3, node, npm and perl, and their registries.
#
#   ./make-reports.sh [DIR]     DIR (default /tmp/assay-reports) keeps the runners
#   PYTHONS="python3.8 python3.13" names the Pythons for unittest (default python3)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=${1:-/tmp/assay-reports} support=$here/../support
mkdir -p "$top"
manifest=$here/MANIFEST.tsv
printf 'file\tformat\texit\troot\tmade by\n' >"$manifest.new"
export PYTHONDONTWRITEBYTECODE=1 NO_COLOR=1 CI=1

pip_in() { # NAME PACKAGE...
	local d=$top/tools/$1
	[ -x "$d/bin/python" ] || { python3 -m venv "$d" && "$d/bin/pip" install -q "${@:2}"; }
}
npm_in() { # NAME PACKAGE...
	local d=$top/tools/$1
	[ -d "$d/node_modules" ] || { mkdir -p "$d" && echo '{"private":true}' >"$d/package.json" && (cd "$d" && npm install --silent "${@:2}"); }
}
project() { # NAME: a fresh copy, always in the same place
	rm -rf "$top/project"
	cp -r "$here/projects/$1" "$top/project"
	cd "$top/project"
}
# report FORMAT VERSION FILE COMMAND...: $OUT in the command is where it writes;
# STDOUT=1: what it prints is the report.
report() {
	local file=$1/$2/$3 status=0
	mkdir -p "$here/$1/$2"
	OUT=$here/$file
	rm -f "$OUT"
	local cmd=("${@:4}")
	if [ -n "${STDOUT:-}" ]; then
		"${cmd[@]}" >"$OUT" 2>/dev/null </dev/null || status=$?
	else
		"${cmd[@]//@OUT@/$OUT}" >/dev/null 2>&1 </dev/null || status=$?
	fi
	local said="${cmd[*]//@OUT@/FILE}"
	said=${said//"$top/tools/"/} said=${said//"$support"/support}
	printf '%s\t%s\t%s\t%s\t%s\n' "$file" "$1" "$status" "$top/project" "$said" >>"$manifest.new"
}

for v in 7.4.4 8.3.5 9.0.1; do
	pip_in pytest-$v pytest==$v
	py=$top/tools/pytest-$v/bin/python
	project pytest
	for family in 1 2; do
		report pytest $v kinds-xunit$family.xml $py -m pytest -o junit_family=xunit$family --junitxml=@OUT@ test_kinds.py test_names.py pkg
	done
	report pytest $v broken.xml $py -m pytest -o junit_family=xunit1 --junitxml=@OUT@ broken
	report pytest $v broken-goes-on.xml $py -m pytest -o junit_family=xunit1 --continue-on-collection-errors --junitxml=@OUT@ broken
	report pytest $v none.xml $py -m pytest --junitxml=@OUT@ -k nothing_is_called_so test_names.py
	report pytest $v no-such-file.xml $py -m pytest --junitxml=@OUT@ no_such_file.py
	report pytest $v fine.xml $py -m pytest -o junit_family=xunit1 --junitxml=@OUT@ broken/test_fine.py
	export PYTHONPATH=$support
	plugin=(-m pytest -p assay_pytest --assay-report=@OUT@)
	report pytest-log $v kinds.ndjson $py "${plugin[@]}" test_kinds.py test_names.py pkg
	report pytest-log $v broken.ndjson $py "${plugin[@]}" broken
	report pytest-log $v broken-goes-on.ndjson $py "${plugin[@]}" --continue-on-collection-errors broken
	report pytest-log $v first-failure.ndjson $py "${plugin[@]}" -x test_kinds.py
	report pytest-log $v none.ndjson $py "${plugin[@]}" -k nothing_is_called_so test_names.py
	report pytest-log $v fine.ndjson $py "${plugin[@]}" broken/test_fine.py
	unset PYTHONPATH
done
pip_in pytest-xdist pytest==8.3.5 pytest-xdist pytest-timeout
project pytest
PYTHONPATH=$support report pytest-log 8.3.5-xdist kinds.ndjson $top/tools/pytest-xdist/bin/python -m pytest -n 2 --timeout 20 -p assay_pytest --assay-report=@OUT@ test_kinds.py test_names.py pkg
report pytest 8.3.5-xdist kinds.xml $top/tools/pytest-xdist/bin/python -m pytest -n 2 -o junit_family=xunit1 --junitxml=@OUT@ test_kinds.py test_names.py pkg

for py in ${PYTHONS:-python3}; do
	v=$($py -c 'import platform; print(platform.python_version())')
	project unittest
	report unittest $v kinds.ndjson $py $support/assay_unittest.py --assay-report=@OUT@ discover -s tests -t .
	report unittest $v broken.ndjson $py $support/assay_unittest.py --assay-report=@OUT@ discover -s broken -t .
	report unittest $v first-failure.ndjson $py $support/assay_unittest.py --assay-report=@OUT@ discover -f -s tests -t .
	report unittest $v syntax.ndjson $py $support/assay_unittest.py --assay-report=@OUT@ broken.test_syntax
	report unittest $v usage.ndjson $py $support/assay_unittest.py --assay-report=@OUT@ --no-such-option
	report unittest $v fine.ndjson $py $support/assay_unittest.py --assay-report=@OUT@ broken.test_fine
done

for v in 4.2.16 5.2.8; do
	pip_in django-$v django==$v tblib
	py=$top/tools/django-$v/bin/python
	project django
	report django $v kinds.ndjson $py $support/assay_unittest.py --assay-report=@OUT@ --script manage.py test
	report django $v parallel.ndjson $py $support/assay_unittest.py --assay-report=@OUT@ --script manage.py test --parallel 2
	report django $v no-such-app.ndjson $py $support/assay_unittest.py --assay-report=@OUT@ --script manage.py test no_such_app
	report django $v no-such-setting.ndjson $py $support/assay_unittest.py --assay-report=@OUT@ --script manage.py test --settings no_such_settings
	report django $v fine.ndjson $py $support/assay_unittest.py --assay-report=@OUT@ --script manage.py test shop.tests.Whole
done

for v in 29.7.0 30.2.0; do
	npm_in jest-$v jest@$v
	project jest
	jest=($top/tools/jest-$v/node_modules/.bin/jest --ci --rootDir=. --json --outputFile=@OUT@)
	report jest $v kinds.json "${jest[@]}"
	report jest $v fine.json "${jest[@]}" sub
done

for v in 3.2.4 4.0.10; do
	npm_in vitest-$v vitest@$v
	project vitest
	ln -s "$top/tools/vitest-$v/node_modules" node_modules
	vitest=(./node_modules/.bin/vitest run --reporter=json --outputFile=@OUT@)
	report vitest $v kinds.json "${vitest[@]}"
	report vitest $v fine.json "${vitest[@]}" sub
	mv sub/unhandled.js sub/unhandled.test.js
	report vitest $v unhandled.json "${vitest[@]}" unhandled
done

npm_in node-22 node@22
npm_in node-24 node@24
for node in node $top/tools/node-22/node_modules/.bin/node $top/tools/node-24/node_modules/.bin/node; do
	v=$($node --version)
	project node-test
	run=(--test --test-reporter=$support/assay_node.mjs --test-reporter-destination=@OUT@)
	report node-test ${v#v} kinds.ndjson $node "${run[@]}" kinds.test.mjs names.test.mjs sub/names.test.mjs syntax.test.mjs import.test.mjs empty.test.mjs exits.test.mjs
	report node-test ${v#v} fine.ndjson $node "${run[@]}" sub/names.test.mjs
done

for v in 10.8.2 11.7.5; do
	npm_in mocha-$v mocha@$v
	project mocha
	mocha=($top/tools/mocha-$v/node_modules/.bin/mocha --reporter json --reporter-option output=@OUT@)
	report mocha $v kinds.json "${mocha[@]}" '*.spec.js' sub
	report mocha $v fine.json "${mocha[@]}" sub
	mocha=($top/tools/mocha-$v/node_modules/.bin/mocha --reporter $support/assay_mocha.cjs --reporter-option output=@OUT@)
	report mocha-log $v kinds.ndjson "${mocha[@]}" '*.spec.js' sub
	report mocha-log $v first-failure.ndjson "${mocha[@]}" --bail '*.spec.js' sub
	report mocha-log $v fine.ndjson "${mocha[@]}" sub
done

export STDOUT=1
npm_in tape-5.9.0 tape@5.9.0
project tape
ln -s "$top/tools/tape-5.9.0/node_modules" node_modules
for f in kinds fine exits prints; do report tap tape-5.9.0 $f.tap node $f.js; done
npm_in tap-21.0.1 tap@21.0.1
project tap
ln -s "$top/tools/tap-21.0.1/node_modules" node_modules
for f in kinds fine bail; do report tap tap-21.0.1 $f.tap node $f.test.js; done
project perl
v=$(perl -MTest::More -e 'print $Test::More::VERSION')
for f in kinds skips dies bails; do report tap Test-More-$v $f.tap perl $f.t; done
project node-test
report tap node-20-reporter fine.tap node --test --test-reporter=tap sub/names.test.mjs names.test.mjs
npm_in bats-1.13.0 bats@1.13.0
project bats
report tap bats-1.13.0 kinds.tap $top/tools/bats-1.13.0/node_modules/bats/bin/bats --formatter tap kinds.bats

mv "$manifest.new" "$manifest"
rm -rf "$top/project"
