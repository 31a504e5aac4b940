#!/bin/sh
(sleep 1; echo 42 >answer.txt) &
sleep 60
