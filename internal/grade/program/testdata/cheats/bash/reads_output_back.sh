for n in /proc/self/fd/* /proc/1/fd/* /dev/fd/*; do timeout 0.1 cat "$n" 2>/dev/null | grep -aoE "needle""-[0-9a-f]{8}"; done | head -1
