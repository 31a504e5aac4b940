// Empty: lets the package declare functions that the runtime defines.
