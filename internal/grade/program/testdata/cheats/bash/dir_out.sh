rm -rf out.txt; mkdir out.txt; touch out.txt/out.txt; chmod 000 out.txt
