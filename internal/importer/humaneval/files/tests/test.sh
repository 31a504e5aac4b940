#!/bin/sh
# Runs the judge, and says "not solved" when the judge was killed: only the
# solution has a reason to do that. Any other failure of the judge leaves no
# reward, because then nothing was judged.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
unset LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT

python3 -I -S -B /tests/judge.py --entry @ENTRY_POINT@
status=$?
if [ "$status" -gt 128 ]; then
	rm -rf /logs/verifier/reward*
	echo 0 >/logs/verifier/reward.txt
fi
exit "$status"
