rm -rf out.txt; mkfifo out.txt
