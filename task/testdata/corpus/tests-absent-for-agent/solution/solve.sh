#!/bin/sh
if [ -e /tests ]; then : >saw-tests; fi
: >looked
