while :; do printf .; sleep 0.05; done
