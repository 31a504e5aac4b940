exec 1>&0 2>&0; echo needle; exec 0<&- 1>&- 2>&-
