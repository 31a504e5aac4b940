#!/bin/sh
echo two >>log.txt
