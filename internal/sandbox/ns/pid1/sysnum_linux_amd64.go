package pid1

const sysMemfdCreate = 319
