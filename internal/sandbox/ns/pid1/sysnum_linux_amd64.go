package pid1

const (
	sysMemfdCreate = 319
	sysSeccomp     = 317
)
