#!/bin/sh
echo one >>log.txt
