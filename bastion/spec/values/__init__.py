"""
What every spec is made of: values that are checked, and told in the words of specs.

`spec_value` makes a class such a value; `typed` checks its fields, and `misuse` tells which
argument was meant. `written` is for values with a text form, `quantity` for durations and sizes.
"""
