#!/bin/sh
set -e
echo 42 >answer.txt
echo x >/etc/planted
