#!/bin/sh
echo x >>log.txt
