#!/bin/sh
# An agent of twenty lines: it asks the model for a shell script, runs it, and shows it what went wrong.
# It needs a python3 in the task's image. Run it with  assay run -a command:"$(cat twenty-lines.sh)" -m MODEL …
ask() {
  python3 -c '
import json, os, sys, urllib.request
question = {"model": os.environ["ASSAY_MODEL"], "messages": [{"role": "user", "content": sys.stdin.read()}]}
request = urllib.request.Request(os.environ["ASSAY_MODEL_URL"] + "/v1/chat/completions", json.dumps(question).encode(),
    {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["ASSAY_MODEL_KEY"]})
print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"])'
}
prompt="Write one shell script, in a fenced block, that does this in $PWD: $(cat "$ASSAY_BRIEF_FILE")"
for try in 1 2 3; do
  printf '%s' "$prompt" | ask | sed -n '/^```/,/^```/{/^```/!p;}' >/tmp/answer.sh
  if output=$(sh -e /tmp/answer.sh 2>&1); then echo "$output"; exit 0; fi
  prompt="$prompt
Try $try failed: $output"
done
exit 1
