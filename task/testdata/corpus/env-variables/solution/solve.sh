#!/bin/sh
printf '%s%s\n' "$PLAIN $DEFAULTED $PARTIAL" "$SUFFIX" >answer.txt
