"""What options can be that the command line and the library share. Imports nothing, so that the command starts at once."""

#: Hardware counters: of kernels one by one, of the whole step in one range, or both.
COUNTER_MODES = ("none", "unique", "all", "step", "unique,step", "all,step")

#: Where a model's graph is taken.
STAGES = ("export", "dynamo", "aot", "aot_forward", "aot_joint", "aot_backward", "post_grad")

#: The relative error against float64 that a rewrite may bring: that of opprof-opt --recommend-rewrites.
DEFAULT_ERROR_BUDGET = 1e-3

#: What kernel time is summed up by.
ITEM_KINDS = ("node", "class", "module", "kernel", "operator")

#: The forms of a comparison.
DIFFERENCE_FORMS = ("text", "markdown", "json")
