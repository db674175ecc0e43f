"""`holdfast platforms`: accounts of chat platforms, and adding one."""
