#!/bin/sh
mkdir -p /opt
echo forged >/opt/answer-key
