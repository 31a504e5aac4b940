#!/bin/bash
. "$TEST_DIR/check.sh"
check
