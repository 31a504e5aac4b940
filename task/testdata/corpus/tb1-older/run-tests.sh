#!/bin/bash
[ "$(cat answer.txt)" = 42 ]
