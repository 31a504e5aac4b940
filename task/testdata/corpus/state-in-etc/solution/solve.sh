#!/bin/sh
set -e
echo hello >/etc/greeting
