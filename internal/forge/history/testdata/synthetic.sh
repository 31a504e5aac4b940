#!/bin/sh
# Makes a repository with a known past in the directory $1: each commit's subject begins with what has to become of
# it. Dates, names and so all hashes are fixed.
set -eu
mkdir -p "$1"
cd "$1"
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null HOME="$1" LC_ALL=C
export GIT_AUTHOR_NAME='Rowan Ashgrove' GIT_AUTHOR_EMAIL=rowan@example.org GIT_COMMITTER_NAME='Rowan Ashgrove' GIT_COMMITTER_EMAIL=rowan@example.org
now=1577836800 # 2020-01-01
commit() { # MESSAGE [ARGUMENTS OF COMMIT]
  now=$((now + 86400))
  export GIT_AUTHOR_DATE="$now +0000" GIT_COMMITTER_DATE="$now +0000"
  message=$1; shift
  git add -A
  printf '%s' "$message" | git commit -q -F - "$@"
}
merge() { # BRANCH MESSAGE
  now=$((now + 86400))
  export GIT_AUTHOR_DATE="$now +0000" GIT_COMMITTER_DATE="$now +0000"
  git merge -q --no-ff -m "$2" "$1"
}
git -c init.defaultBranch=main init -q .

mkdir -p pkg tests docs
: >pkg/__init__.py
: >tests/__init__.py
cat >pkg/calc.py <<'E'
"""Numbers."""


def mean(values):
    return sum(values) / len(values)


def clamp(value, low, high):
    if value < low:
        return low
    if value > high:
        return low
    return value


def ratio(a, b):
    return a // b


def total(values):
    n = 0
    for v in values:
        n = n + v
    return n
E
cat >pkg/text.py <<'E'
"""Words."""


def title(words):
    return " ".join(w.capitalize() for w in words.split(" "))


def shorten(text, width):
    return text[:width]


def lines(text):
    return text.split("\n")
E
cat >tests/test_calc.py <<'E'
import unittest

from pkg import calc


class Calc(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(calc.mean([1, 3]), 2)

    def test_total(self):
        self.assertEqual(calc.total([1, 2, 3]), 6)
E
cat >tests/test_text.py <<'E'
import unittest

from pkg import text


class Text(unittest.TestCase):
    def test_title(self):
        self.assertEqual(text.title("a b"), "A B")
E
echo 'A package.' >README.md
printf '# Changes\n\n## 1.0\n\n- First.\n' >CHANGES.md
commit 'no parent: the beginning'

sed -i 's/^    return sum(values).*/    if not values:\n        return 0\n    return sum(values) \/ len(values)/' pkg/calc.py
cat >>tests/test_calc.py <<'E'

    def test_mean_of_nothing(self):
        self.assertEqual(calc.mean([]), 0)
E
commit 'candidate mean: fix crash of mean() for an empty list (#14)

mean([]) ended with a ZeroDivisionError where zero is expected.
    if not values:
Fixed by adding a guard in pkg/calc.py:5.
See https://example.org/o/p/issues/12 and commit 0123456789abcdef0123456789abcdef01234567.

Fixes #12
Co-authored-by: Wren Halloway <wren@example.org>
'

echo 'More words.' >>README.md
commit 'no source: explain the package'

sed -i 's/total/add_all/' pkg/calc.py tests/test_calc.py
commit 'not a mended fault: rename total to add_all'

sed -i 's/^    n = 0$/    n = 0  # begins at nothing/; s/^"""Numbers."""/"""Numbers, and what is made of them."""/' pkg/calc.py
sed -i 's/^import unittest$/import unittest  # runner/' tests/test_calc.py
commit 'comments or formatting only: tell where the sum begins, fixes confusion'

echo 'requests==2.0' >requirements.txt
commit 'no source: pin requests'

sed -i 's/^    return text\[:width\]/    return text[:max(0, width)]/' pkg/text.py
commit 'no tests: fix shorten() for negative widths'

sed -i '/value > high/{n;s/low/high/}' pkg/calc.py
cat >>tests/test_calc.py <<'E'

    def test_clamp(self):
        self.assertEqual(calc.clamp(9, 1, 5), 5)
E
printf '# Changes\n\n## Unreleased\n\n- `clamp` gave the lower bound for values\n  above the upper one. (#15, by @wren)\n\n## 1.0\n\n- First.\n' >CHANGES.md
commit 'candidate clamp: clamp returns wrong bound

Patch by Wren Halloway'

sed -i 's/words.split(" ")/words.split()/' pkg/text.py
cat >>tests/test_text.py <<'E'

    def test_title_of_many_spaces(self):
        self.assertEqual(text.title("a   b"), "A B")
E
commit 'candidate title: Fix title() keeping runs of spaces

Words that are far apart stayed far apart in titles.'

git mv pkg/text.py pkg/words.py
sed -i 's/import text$/import words as text/' tests/test_text.py
commit 'comments or formatting only: move'
git checkout -q -b side
sed -i 's/text.split("\\n")/text.splitlines()/' pkg/words.py
commit 'part of a merge: use splitlines'
cat >>tests/test_text.py <<'E'

    def test_lines(self):
        self.assertEqual(text.lines("a\r\nb"), ["a", "b"])
E
commit 'no tests or source: test lines'
git checkout -q main
echo 'Even more.' >>README.md
commit 'no source: readme'
git checkout -q side
merge main 'merge into a side branch'
git checkout -q main
merge side "Merge pull request #21 from wren/side

candidate merge: Fix lines() for files of Windows

Carriage returns were left at the ends of lines.
"

sed -i 's/^    return a \/\/ b/    return a \/ b/' pkg/calc.py
cat >>tests/test_calc.py <<'E'

    def test_ratio(self):
        self.assertEqual(calc.ratio(1, 2), 0.5)
E
commit 'taken back later: fix ratio to be exact'
sed -i 's/^    return a \/ b/    return a \/\/ b/' pkg/calc.py
sed -i 's/calc.ratio(1, 2), 0.5/calc.ratio(1, 2), 0/' tests/test_calc.py
commit "Revert \"taken back later: fix ratio to be exact\"

candidate revert. This reverts commit $(git rev-parse HEAD)."

printf 'a = "\000"\n' >pkg/table.py
echo '# table' >>tests/test_calc.py
commit 'binary source: fix a table'
git update-index --add --cacheinfo "160000,$(git rev-parse HEAD),pkg/ext.c"
echo '# ext' >>tests/test_calc.py
git add tests
now=$((now + 86400)); GIT_AUTHOR_DATE="$now +0000" GIT_COMMITTER_DATE="$now +0000" git commit -q -m 'no source: fix by a newer ext, which is a submodule'
git rm -q --cached pkg/ext.c
ln -s calc.py pkg/alias.py
echo '# alias' >>tests/test_calc.py
commit 'submodule or link: fix with an alias'
name=$(printf 'pkg/na\357ve.py')
echo 'x = 1' >"$name"
echo '# naive' >>tests/test_calc.py
commit 'name is not text: fix naive'
printf 'x = 1\n' >"pkg/two
lines.py"
echo '# two' >>tests/test_calc.py
commit 'name is not text: fix a break'

cat >>pkg/calc.py <<'E'


def halve(value):
    return value / 3
E
commit 'no tests: halve'
sed -i 's/value \/ 3/value \/ 2/' pkg/calc.py
cat >>tests/test_calc.py <<'E'

    def test_halve(self):
        self.assertEqual(calc.halve(4), 2)
E
commit 'its inverse does not apply: fix halve to divide by two'
sed -i 's/value \/ 2/value * 0.5/' pkg/calc.py
commit 'no tests: halve is a product'

cat >>pkg/calc.py <<'E'


def double(value):
    return value * 2
E
cat >>tests/test_calc.py <<'E'

    def test_double(self):
        self.assertEqual(calc.double(4), 8)
E
commit 'not a mended fault: add double'

sed -i 's/value \* 2/2 * value/' pkg/calc.py
echo '# 1.1' >>tests/test_calc.py
commit 'Release 1.1 with fixes'

sed -i 's/2 \* value/2 * int(value)/' pkg/calc.py
cat >tests/test_double.py <<'E'
import unittest

from pkg import calc


class Double(unittest.TestCase):
    def test_text(self):
        self.assertEqual(calc.double("4"), 8)
E
commit 'its tests are gone: fix double of text'
git rm -q tests/test_double.py
commit 'no source: fewer tests'

sed -i 's/^    return text\[:max(0, width)\]/    return text[: max(width, 0)] if text else ""/' pkg/words.py
mkdir -p other/tests
cat >other/tests/test_nothing.py <<'E'
import unittest


class Nothing(unittest.TestCase):
    def test(self):
        self.assertTrue(True)
E
commit 'tests are about other code: fix what happens with None'

for i in 1 2 3 4 5 6 7 8 9; do echo "x = $i" >pkg/m$i.py; done
echo '# many' >>tests/test_calc.py
commit 'too many files: fix everything'
rm pkg/m?.py
commit 'no tests: fewer'
i=0; while [ $i -lt 600 ]; do echo "y$i = $i"; i=$((i + 1)); done >pkg/large.py
echo '# large' >>tests/test_calc.py
commit 'too large: fix with a table'
