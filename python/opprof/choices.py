"""What options can be that the command line and the library share. Imports nothing, so that the command starts at once."""

#: Hardware counters: of kernels one by one, of the whole step in one range, or both.
COUNTER_MODES = ("none", "unique", "all", "step", "unique,step", "all,step")
