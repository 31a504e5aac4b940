package seccomp

// newest is the last number of the tables: 64-bit and 32-bit ones have grown
// in step since 424.
const newest = 471

// The table lists what is not simply allowed: verb, name, then its number on
// amd64, 386, arm64 (the generic table, riscv64 and loong64 too) and arm.
//
//	perm   EPERM
//	nosys  ENOSYS
//	fake   success without effect, if FakeOwners; else allowed
//	check  decided by arguments; see check.go
const table = `
check clone 56 120 220 120
fake capset 126 185 91 185
fake chown 92 182 - 182
fake chown32 - 212 - 212
fake fchown 93 95 55 95
fake fchown32 - 207 - 207
fake fchownat 260 298 54 325
fake lchown 94 16 - 16
fake lchown32 - 198 - 198
fake setfsgid 123 139 152 139
fake setfsgid32 - 216 - 216
fake setfsuid 122 138 151 138
fake setfsuid32 - 215 - 215
fake setgid 106 46 144 46
fake setgid32 - 214 - 214
fake setgroups 116 81 159 81
fake setgroups32 - 206 - 206
fake setregid 114 71 143 71
fake setregid32 - 204 - 204
fake setresgid 119 170 149 170
fake setresgid32 - 210 - 210
fake setresuid 117 164 147 164
fake setresuid32 - 208 - 208
fake setreuid 113 70 145 70
fake setreuid32 - 203 - 203
fake setuid 105 23 146 23
fake setuid32 - 213 - 213
check mknod 133 14 - 14
check mknodat 259 297 33 324
nosys clone3 435 435 435 435
nosys file_getattr 468 468 468 468
nosys file_setattr 469 469 469 469
nosys listns 470 470 470 470
nosys lsm_get_self_attr 459 459 459 459
nosys lsm_list_modules 461 461 461 461
nosys lsm_set_self_attr 460 460 460 460
nosys open_tree_attr 467 467 467 467
nosys rseq_slice_yield 471 471 471 471
nosys set_mempolicy_home_node 450 450 450 450
nosys uprobe 336 - - -
perm _sysctl 156 149 - 149
perm acct 163 51 89 51
perm add_key 248 286 217 309
perm afs_syscall 183 137 - -
perm bdflush - 134 - 134
perm bpf 321 357 280 386
perm break - 17 - -
perm clock_settime 227 264 112 262
perm clock_settime64 - 404 - 404
perm create_module 174 127 - -
perm delete_module 176 129 106 129
perm fanotify_init 300 338 262 367
perm finit_module 313 350 273 379
perm fsconfig 431 431 431 431
perm fsmount 432 432 432 432
perm fsopen 430 430 430 430
perm fspick 433 433 433 433
perm ftime - 35 - -
perm get_kernel_syms 177 130 - -
perm get_mempolicy 239 275 236 320
perm getpmsg 181 188 - -
perm gtty - 32 - -
perm idle - 112 - -
perm init_module 175 128 105 128
perm io_uring_enter 426 426 426 426
perm io_uring_register 427 427 427 427
perm io_uring_setup 425 425 425 425
perm ioperm 173 101 - -
perm iopl 172 110 - -
perm kcmp 312 349 272 378
perm kexec_file_load 320 - 294 401
perm kexec_load 246 283 104 347
perm keyctl 250 288 219 311
perm lock - 53 - -
perm lookup_dcookie 212 253 18 249
perm mbind 237 274 235 319
perm migrate_pages 256 294 238 400
perm mount 165 21 40 21
perm mount_setattr 442 442 442 442
perm move_mount 429 429 429 429
perm move_pages 279 317 239 344
perm mpx - 56 - -
perm nfsservctl 180 169 42 169
perm nice - 34 - 34
perm oldfstat - 28 - -
perm oldlstat - 84 - -
perm oldolduname - 59 - -
perm oldstat - 18 - -
perm olduname - 109 - -
perm open_by_handle_at 304 342 265 371
perm open_tree 428 428 428 428
perm pciconfig_iobase - - - 271
perm pciconfig_read - - - 272
perm pciconfig_write - - - 273
perm perf_event_open 298 336 241 364
perm pidfd_getfd 438 438 438 438
perm pivot_root 155 217 41 218
perm process_madvise 440 440 440 440
perm prof - 44 - -
perm profil - 98 - -
perm putpmsg 182 189 - -
perm query_module 178 167 - -
perm quotactl 179 131 60 131
perm quotactl_fd 443 443 443 443
perm readdir - 89 - -
perm reboot 169 88 142 88
perm request_key 249 287 218 310
perm security 185 - - -
perm set_mempolicy 238 276 237 321
perm setdomainname 171 121 162 121
perm sethostname 170 74 161 74
perm setns 308 346 268 375
perm settimeofday 164 79 170 79
perm sgetmask - 68 - -
perm sigaction - 67 - 67
perm signal - 48 - -
perm sigpending - 73 - 73
perm sigsuspend - 72 - 72
perm ssetmask - 69 - -
perm stime - 25 - -
perm stty - 31 - -
perm swapoff 168 115 225 115
perm swapon 167 87 224 87
perm sysfs 139 135 - 135
perm syslog 103 103 116 103
perm tuxcall 184 - - -
perm ulimit - 58 - -
perm umount - 22 - -
perm umount2 166 52 39 52
perm unshare 272 310 97 337
perm uselib 134 86 - 86
perm userfaultfd 323 374 282 388
perm ustat 136 62 - 62
perm vhangup 153 111 58 111
perm vm86 - 166 - -
perm vm86old - 113 - -
perm vserver 236 273 - 313
check personality 135 136 92 136
check prlimit64 302 340 261 369
check socket 41 359 198 281
check socketcall - 102 - -
`
