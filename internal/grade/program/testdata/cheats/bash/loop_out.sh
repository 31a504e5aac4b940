rm -rf out.txt; ln -s out.txt out.txt; mkdir -p d; cd /; mv /app /gone 2>/dev/null; ln -s /app /app 2>/dev/null
