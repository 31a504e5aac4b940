yes needle- | head -c 500000000
