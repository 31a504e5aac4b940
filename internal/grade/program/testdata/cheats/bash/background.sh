(setsid sh -c 'while :; do echo x >>/app/out.txt; echo x; done' &)
echo done
