truncate -s 1T out.txt 2>/dev/null || truncate -s 4G out.txt
